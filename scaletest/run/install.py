"""Brings the fleet up: namespace, the run's CA, the run's phase, then one `helm install` that waits for Ready."""

import asyncio
from pathlib import Path
from typing import Any

from bigfleet.security.authority import Authority
from bigfleet.security.identity import Identity
from scaletest.errors import InstallError
from scaletest.run.helm import Helm
from scaletest.run.hostapi import RUN_CONFIG_MAP, HostApi, is_ready, waiting_reason
from scaletest.run.journal import Journal

_PROGRESS_SECONDS = 3


async def prepare_stage(api: HostApi, run_id: str, identity_dir: Path) -> None:
    """Everything that must exist before the chart: it never sees the CA's key in its values."""
    authority = Authority.create(run_id)
    authority.issue(Identity("admin")).write(identity_dir)
    trust = authority.certificate_pem.decode()
    await api.create_namespace()
    await api.create_secret("bigfleet-ca", {"ca.crt": authority.certificate_pem, "ca.key": authority.key_pem})
    await api.create_config_map("bigfleet-trust", {"ca.crt": trust})
    await api.create_config_map(RUN_CONFIG_MAP, {"phase": "install", "soakStart": ""})


async def install_chart(
    helm: Helm, api: HostApi, journal: Journal, chart: Path, values: dict[str, Any], timeout_seconds: int
) -> None:
    """Install and show which pods are still awaited."""
    installing = asyncio.ensure_future(helm.install(chart, values, timeout_seconds))
    last = ""
    try:
        while not installing.done():
            await asyncio.wait([installing], timeout=_PROGRESS_SECONDS)
            line = _progress(await api.pods())
            if line != last and not installing.done():
                journal.say("install", line)
                last = line
        await installing
    except InstallError:
        journal.say("install", _progress(await api.pods()))
        raise
    finally:
        installing.cancel()
        await asyncio.gather(installing, return_exceptions=True)


def _progress(pods: list[Any]) -> str:
    ready = sum(1 for pod in pods if is_ready(pod))
    waiting = [f"{pod.metadata.name} ({waiting_reason(pod)})" for pod in pods if not is_ready(pod)]
    awaited = "; ".join(waiting[:3]) + (f"; and {len(waiting) - 3} more" if len(waiting) > 3 else "")
    return f"pods ready {ready}/{len(pods)}" + (f", waiting for {awaited}" if awaited else "")

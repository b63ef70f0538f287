"""Brings the fleet up: namespace, the run's CA, the run's phase, then one `helm install` that waits for Ready."""

import asyncio
from pathlib import Path
from typing import Any

from bigfleet.security.authority import Authority
from bigfleet.security.identity import Identity
from scaletest.errors import InstallError, KubeApiConflict, UsageError
from scaletest.model.names import RUN_CONFIG_MAP
from scaletest.run.journal import RunJournal
from scaletest.run.target.helm import Helm
from scaletest.run.target.kube_api import KubeApi, is_ready, trouble_of
from scaletest.run.target.occupancy import TAKE_ANOTHER, belongs_to_no_run

_PROGRESS_SECONDS = 3
# A container that ended this often will not come up by waiting for Helm's whole timeout.
_HOPELESS_RESTARTS = 4
_NAMES_SHOWN = 3


async def prepare_namespace(api: KubeApi, run_id: str, identity_dir: Path) -> None:
    """Everything that must exist before the chart: it never sees the CA's key in its values."""
    authority = Authority.create(run_id)
    authority.issue(Identity("admin")).write(identity_dir)
    trust = authority.certificate_pem.decode()
    try:
        await api.create_namespace()
    except KubeApiConflict as error:
        if (holder := await api.holder()) and not holder.run_id:
            raise UsageError(belongs_to_no_run(api.namespace), hint=TAKE_ANOTHER) from error
        raise UsageError(f"another run took namespace {api.namespace} a moment ago", hint=TAKE_ANOTHER) from error
    await api.create_secret("bigfleet-ca", {"ca.crt": authority.certificate_pem, "ca.key": authority.key_pem})
    await api.create_config_map("bigfleet-trust", {"ca.crt": trust})
    await api.create_config_map(RUN_CONFIG_MAP, {"phase": "install", "soakStart": ""})


async def install_chart(
    helm: Helm,
    api: KubeApi,
    journal: RunJournal,
    chart: Path,
    values: dict[str, Any],
    timeout_seconds: float,
    chosen: dict[str, Any],
) -> None:
    """Install and show which pods are still awaited. `chosen` are the values that the user gave."""
    installing = asyncio.ensure_future(helm.install(chart, values, timeout_seconds, chosen))
    last = ""
    try:
        while not installing.done():
            await asyncio.wait([installing], timeout=_PROGRESS_SECONDS)
            pods = await api.pods()
            line = progress_line(pods)
            if line != last and not installing.done():
                journal.say("install", line)
                last = line
            if hopeless := hopeless_container(pods):
                raise InstallError(f"{hopeless} keeps ending", hint="read the end of its log, in logs/ of the results")
        await installing
    finally:
        installing.cancel()
        await asyncio.gather(installing, return_exceptions=True)


def hopeless_container(pods: list[Any]) -> str:
    """`pod/container` of one that ended again and again; empty if there is none."""
    for pod in pods:
        for status in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
            if status.restart_count >= _HOPELESS_RESTARTS and not status.ready:
                return f"{pod.metadata.name}/{status.name}"
    return ""


def progress_line(pods: list[Any]) -> str:
    """How many pods are Ready, which are awaited, and what troubles the first that is in trouble."""
    awaited = [pod for pod in pods if not is_ready(pod)]
    line = f"pods ready {len(pods) - len(awaited)}/{len(pods)}"
    if not awaited:
        return line
    names = ", ".join(pod.metadata.name for pod in awaited[:_NAMES_SHOWN])
    more = f" and {len(awaited) - _NAMES_SHOWN} more" if len(awaited) > _NAMES_SHOWN else ""
    trouble = next((f"; {pod.metadata.name}: {why}" for pod in awaited if (why := trouble_of(pod))), "")
    return f"{line}, waiting for {names}{more}{trouble}"

"""Brings the fleet up: namespace, the run's CA, the run's phase, then one `helm install` that waits for Ready.

And takes it down again: the release, what is outside of the namespace, the namespace, and a look at what is left.
"""

import asyncio
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from bigfleet.security.authority import Authority
from bigfleet.security.identity import Identity
from scaletest.errors import InstallError, ScaletestError, UsageError
from scaletest.run.helm import Helm
from scaletest.run.hostapi import RUN_CONFIG_MAP, HostApi, is_ready, trouble_of
from scaletest.run.journal import Journal

_CONFLICT = 409
_PROGRESS_SECONDS = 3
# A container that ended this often will not come up by waiting for Helm's whole timeout.
_HOPELESS_RESTARTS = 4
_NAMES_SHOWN = 3
_BESIDE = "--namespace NAME takes another one"


async def refuse_dirty_stage(api: HostApi, gc_command: str) -> None:
    """Refuse a namespace that exists, and what former runs left outside of theirs: with these an install fails later.

    Raises UsageError: nothing was started, and another --namespace may do.
    """
    if holder := await api.holder():
        if not holder.run_id:
            raise UsageError(f"namespace {api.namespace} exists, and belongs to no run", hint=_BESIDE)
        if holder.leaving:
            raise UsageError(
                f"namespace {api.namespace} of run {holder.run_id} is still being removed",
                hint=f"wait for it; {_BESIDE}",
            )
        raise UsageError(
            f"namespace {api.namespace} is occupied by run {holder.run_id}",
            hint=f"{gc_command} --run {holder.run_id} removes it unless its runner lives; {_BESIDE}",
        )
    homeless = {run_id: run for run_id, run in (await api.runs()).items() if not run.namespaces}
    if homeless:
        left = ", ".join(f"{name} (run {run_id})" for run_id, run in homeless.items() for name in run.names())
        raise UsageError(f"a former run left something behind: {left}", hint=f"{gc_command} --all removes it")


async def prepare_stage(api: HostApi, run_id: str, identity_dir: Path) -> None:
    """Everything that must exist before the chart: it never sees the CA's key in its values."""
    authority = Authority.create(run_id)
    authority.issue(Identity("admin")).write(identity_dir)
    trust = authority.certificate_pem.decode()
    try:
        await api.create_namespace()
    except ApiException as error:
        if error.status != _CONFLICT:
            raise
        raise UsageError(f"another run took namespace {api.namespace} a moment ago", hint=_BESIDE) from error
    await api.create_secret("bigfleet-ca", {"ca.crt": authority.certificate_pem, "ca.key": authority.key_pem})
    await api.create_config_map("bigfleet-trust", {"ca.crt": trust})
    await api.create_config_map(RUN_CONFIG_MAP, {"phase": "install", "soakStart": ""})


async def install_chart(
    helm: Helm,
    api: HostApi,
    journal: Journal,
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
                raise InstallError(f"{hopeless} keeps ending", hint="the end of its log is in logs/ of the results")
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


async def remove_release(helm: Helm, api: HostApi, timeout_seconds: float) -> list[str]:
    """Remove everything of the run from its cluster; returns what is still there, and why.

    A namespace that is not this run's is not touched, even if the run meant to have it.
    """
    trouble: list[str] = []
    try:
        async with asyncio.timeout(timeout_seconds):
            holder = await api.holder()
            ours = holder is not None and holder.run_id == api.run_id
            if ours:
                try:
                    await helm.uninstall(timeout_seconds)
                except ScaletestError as error:  # what Helm can't remove has labels, and goes with them
                    trouble.append(error.message)
            await api.delete_cluster_objects()
            if ours:
                await api.delete_namespace(timeout_seconds)
    except TimeoutError:
        trouble.append("out of time")
    except ApiException as error:
        trouble.append(f"the API said {error.status} {error.reason}")
    try:
        left = await api.leftovers()
    except ApiException as error:  # the API did not list it, so it may still be there
        left = [f"namespace/{api.namespace} (the API said {error.status} {error.reason} when we looked)"]
    return [*left, *trouble] if left else []

"""`down`: end a run that was left up, on this machine or on a kube context."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from scaletest.errors import UsageError
from scaletest.host.ending import end_host
from scaletest.host.registry import find_hosts, refuse_owned
from scaletest.run.fleet.leftovers import remove_context_run
from scaletest.run.target.contexts import find_context_runs


async def remove_run(name: str, find_helm: Callable[[], Awaitable[Path]]) -> str:
    """Remove the run of this name, or the only one, and return its id. Helm is looked for only where it is needed."""
    hosts = {
        host.record.run_id: host
        for host in find_hosts()
        if host.record and host.record.run_id and (host.is_up or host.is_left)
    }
    runs = {run.record.run_id: run for run in find_context_runs()}
    run_id = choose_run([*hosts, *runs], name)
    if host := hosts.get(run_id):
        refuse_owned(host)
        await end_host(host)
    else:
        run = runs[run_id]
        if owner := run.record.living_owner:
            raise UsageError(f"run {run_id} is under way: process {owner.pid}", hint="end that with Ctrl-C")
        await remove_context_run(run, await find_helm())
    return run_id


def choose_run(run_ids: Sequence[str], wanted: str) -> str:
    """The run of this id, or the one whose id begins so; raises UsageError where there is none, or more than one."""
    fits = [run_id for run_id in run_ids if run_id.startswith(wanted)]
    if wanted in run_ids:
        return wanted
    if len(fits) == 1:
        return fits[0]
    if not run_ids:
        raise UsageError("nothing is up", hint="run `scaletest-runner up --profile smoke`")
    if not fits:
        raise UsageError(f"there is no run {wanted!r}", hint=f"up: {', '.join(run_ids)}")
    raise UsageError(f"several are up: {', '.join(fits)}", hint="name one of them")

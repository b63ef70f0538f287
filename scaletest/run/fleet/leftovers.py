"""What killed runners left, and how to remove it: hosts, processes, notes, and what runs have on a cluster.

Nothing that a living runner owns is ever listed, and nothing that was left up on purpose.
"""

import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scaletest.errors import Leftovers, ScaletestError, UsageError
from scaletest.host.ending import end_host
from scaletest.host.owners import Owner
from scaletest.host.registry import FIRST_STEP_SECONDS, RegisteredHost, find_hosts, find_orphans, names_of
from scaletest.model.counting import counted
from scaletest.model.names import NAMESPACE, RELEASE
from scaletest.model.plan import TEARDOWN_SECONDS
from scaletest.run.steps.teardown import remove_release
from scaletest.run.target.contexts import ContextRun, contexts_dir, copy_context, find_context_runs
from scaletest.run.target.helm import Helm
from scaletest.run.target.kube_api import KubeApi, RunObjects
from scaletest.run.target.target import remove_notes


@dataclass(frozen=True)
class Leftover:
    """Something that no living process will remove."""

    # The run's id, or the host's if it had no run.
    name: str
    # What is left of it, for people.
    what: str
    # Raises Leftovers, or says why not.
    remove: Callable[[], Awaitable[None]]


async def all_leftovers(run_id: str, context: str, scratch: Path, *, helm: Path, kubectl: Path) -> list[Leftover]:
    """What is left of a run, or of all that no living runner will end; on this kube context too, if one is named."""
    found = list(leftovers_of_run(run_id, helm) if run_id else local_leftovers(helm))
    if context:
        kubeconfig = scratch / "kubeconfig"
        await copy_context(kubectl, context, kubeconfig)
        known = {leftover.name for leftover in found}
        on_cluster = await cluster_leftovers(kubeconfig, scratch, helm, run_id)
        found += [leftover for leftover in on_cluster if leftover.name not in known]
    return found


async def remove_all(found: Iterable[Leftover], say: Callable[[str], object]) -> None:
    """All that can be removed goes, whatever else can not. Raises Leftovers for the rest."""
    stuck = []
    for leftover in found:
        try:
            await leftover.remove()
            say(f"removed  {leftover.name}: {leftover.what}")
        except ScaletestError as error:
            stuck.append(f"{leftover.name}: {error.message}")
    if stuck:
        raise Leftovers(f"could not be removed: {'; '.join(stuck)}")


def local_leftovers(helm: Path) -> Iterator[Leftover]:
    """What is left on this machine, and on clusters that this machine's notes know of."""
    for host in [*find_hosts(), *find_orphans()]:
        if host.is_left or not host.directory.exists():
            yield of_host(host)
    for run in find_context_runs():
        if run.record.is_left:
            yield of_context_run(run, helm)
    yield from _broken_notes()


def leftovers_of_run(run_id: str, helm: Path) -> Iterator[Leftover]:
    """Everything of one run (or host), left up on purpose or not. Raises UsageError if its runner lives."""
    for host in [*find_hosts(), *find_orphans()]:
        if run_id in names_of(host):
            if host.owner:
                raise UsageError(f"run {run_id} is under way: process {host.owner.pid}", hint="end it with Ctrl-C")
            yield of_host(host)
    for run in find_context_runs():
        if run.record.run_id == run_id:
            if owner := run.record.living_owner:
                raise UsageError(f"run {run_id} is under way: process {owner.pid}", hint="end it with Ctrl-C")
            yield of_context_run(run, helm)
    yield from (notes for notes in _broken_notes() if notes.name == run_id)


def of_host(host: RegisteredHost) -> Leftover:
    run_id = host.record.run_id if host.record else ""
    parts = [f"host {host.id}"]
    if host.processes:
        parts.append(counted(len(host.processes), "process", "processes"))
    if host.directory.exists():
        parts.append(str(host.directory))
    return Leftover(run_id or host.id, ", ".join(parts), partial(end_host, host))


def of_context_run(run: ContextRun, helm: Path) -> Leftover:
    record = run.record
    what = f"namespace {record.namespace} on context {record.context}, {run.directory}"
    return Leftover(record.run_id, what, partial(remove_context_run, run, helm))


async def remove_context_run(run: ContextRun, helm: Path) -> None:
    """Remove a run from the cluster that its notes name, then the notes."""
    record = run.record
    if run.kubeconfig.exists():  # else it was killed before it had reached the cluster
        await _remove_from_cluster(run.kubeconfig, record.namespace, record.run_id, run.directory, helm)
    remove_notes(run.directory)


async def cluster_leftovers(kubeconfig: Path, scratch: Path, helm: Path, run_id: str = "") -> list[Leftover]:
    """What runs have on a cluster. Without `run_id` only those that no living runner can be about to end.

    Raises UsageError for a run whose runner lives.
    """
    api = KubeApi(kubeconfig, NAMESPACE, run_id, scratch)
    found = []
    for name, run in (await api.runs(run_id)).items():
        owner = Owner.parse(run.owner)
        if owner and owner.alive:
            if run_id:
                raise UsageError(f"run {name} is under way: process {owner.pid}", hint="end it with Ctrl-C")
            continue
        if not run_id and run.namespaces and not owner:
            continue  # left up on purpose, or begun on another machine
        found.append(_of_run(name, run, kubeconfig, scratch, helm))
    return found


def _of_run(run_id: str, run: RunObjects, kubeconfig: Path, scratch: Path, helm: Path) -> Leftover:
    async def remove() -> None:
        for namespace in run.namespaces or [NAMESPACE]:
            await _remove_from_cluster(kubeconfig, namespace, run_id, scratch, helm)
        for noted in find_context_runs():
            if noted.record.run_id == run_id:
                remove_notes(noted.directory)

    return Leftover(run_id, ", ".join(run.names()), remove)


async def _remove_from_cluster(kubeconfig: Path, namespace: str, run_id: str, scratch: Path, helm: Path) -> None:
    api = KubeApi(kubeconfig, namespace, run_id, scratch)
    left = await remove_release(Helm(helm, kubeconfig, RELEASE, namespace), api, TEARDOWN_SECONDS)
    if left:
        raise Leftovers(f"still there: {', '.join(left)}")


def _broken_notes() -> Iterator[Leftover]:
    """Directories that were made and never filled."""
    known = {run.directory for run in find_context_runs()}
    for directory in contexts_dir().iterdir() if contexts_dir().exists() else ():
        if directory not in known and time.time() - directory.stat().st_mtime > FIRST_STEP_SECONDS:
            yield Leftover(directory.name, str(directory), partial(_remove_directory, directory))


async def _remove_directory(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)

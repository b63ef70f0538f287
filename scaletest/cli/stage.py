"""`up`, `down`, `status` and `gc`: stages that stay between commands, and what is left of those that should not."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scaletest.cli.arguments import (
    NamespaceOption,
    OutputOption,
    ProfileOption,
    SeedOption,
    SetOption,
    SubstrateOption,
    YesOption,
)
from scaletest.cli.asking import ask_before_spending, show_before_starting
from scaletest.cli.host import refuse_owned, say_if_something_is_left
from scaletest.cli.results_folder import make_results_folder
from scaletest.cli.showing import table
from scaletest.cli.standing import stage_document, stage_lines
from scaletest.cli.target import ContextOption, ImageOption, Target, read_target, refuse_without_images
from scaletest.cli.values import read_overrides, refuse_wrong_values
from scaletest.errors import Leftovers, NotSteady, ScaletestError, UsageError
from scaletest.model.counting import counted
from scaletest.model.names import NAMESPACE
from scaletest.project import CHART

if TYPE_CHECKING:
    from scaletest.run.fleet.leftovers import Leftover
    from scaletest.run.fleet.status import Standing

# The profile whose catalog describes the machines when there is no demand.
_PROFILE_WITHOUT_DEMAND = "smoke"


def bring_up(
    profile: ProfileOption = "",
    substrate: SubstrateOption = "embedded",
    clusters: Annotated[
        int | None, typer.Option("--clusters", metavar="N", min=1, help="KWOK clusters; default: the profile's.")
    ] = None,
    pods: Annotated[
        int | None,
        typer.Option("--pods", metavar="N", min=0, help="Pods in all of them together; default: the profile's."),
    ] = None,
    seed: SeedOption = None,
    namespace: NamespaceOption = NAMESPACE,
    kube_context: ContextOption = "",
    images: ImageOption = None,
    sets: SetOption = None,
    chart: Annotated[Path | None, typer.Option("--chart", metavar="DIR", help="Another chart than ours.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Values, diary and logs; default: results/<run id>.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Bring a fleet up and leave it, until `down`.

    BigFleet and its KWOK clusters, with every Pod of the demand bound.
    """
    import asyncio

    from scaletest.cli.arguments import read_plan
    from scaletest.report.dashboard import with_dashboard
    from scaletest.report.plan import fleet_lines
    from scaletest.run.fleet.up import resized
    from scaletest.run.steps.preflight import not_built, refuse, too_little_memory
    from scaletest.run.target.helm_errors import merged

    if not profile and pods is None:
        raise UsageError("--profile is missing", hint="--profile smoke, or --clusters 3 --pods 0 for no demand")
    plan = read_plan(profile or _PROFILE_WITHOUT_DEMAND, substrate, "", seed)
    if missing := not_built(plan):
        raise UsageError(f"not built yet: {', '.join(missing)}")
    chart_dir = (chart or CHART).absolute()
    if not (chart_dir / "Chart.yaml").is_file():
        raise UsageError(f"{chart_dir} is not a chart", hint="a chart is a folder with a Chart.yaml")
    overrides = read_overrides(sets or [], chart_dir)
    target = read_target(plan, kube_context, images or [])
    if chart is None:
        refuse_without_images(target, overrides)
    if profile:
        show_before_starting(fleet_lines(plan))
    to = resized(plan.values("dry-run"), clusters, pods)
    refuse([*too_little_memory(plan, plan.footprint_of(to["kwok"]["clusterCount"], to["loadProfile"]["target"]))])
    if clusters is not None or pods is not None:
        count = to["kwok"]["clusterCount"]
        size = f"{counted(count, 'cluster')} × {counted(to['loadProfile']['target'], 'Pod')}"
        typer.echo(f"{'resized' if profile else 'scale':<12}{size}\n", err=True)
    chosen = merged(target.images, overrides)
    refuse_wrong_values(chart_dir, with_dashboard(plan, to), chosen, namespace)
    ask_before_spending(plan, target.context, yes)
    run_id, results = make_results_folder(output, (profile and plan.profile_name) or "up")
    values = with_dashboard(plan, resized(plan.values(run_id), clusters, pods))
    building = _Building(run_id, chart_dir, target, namespace, chosen, values, results)
    asyncio.run(building.execute())


class _Building:
    """One `up`."""

    def __init__(
        self,
        run_id: str,
        chart: Path,
        target: Target,
        namespace: str,
        overrides: dict[str, Any],
        values: dict[str, Any],
        results: Path,
    ) -> None:
        self._run_id, self._chart, self._target, self._namespace = run_id, chart, target, namespace
        self._overrides, self._values, self._results = overrides, values, results

    async def execute(self) -> None:
        from scaletest.cli.signals import on_signals
        from scaletest.cli.tools import provide_toolchain
        from scaletest.report.console import Console
        from scaletest.run.fleet.stage import StageOptions
        from scaletest.run.fleet.up import Up
        from scaletest.run.journal import Journal

        toolchain = await provide_toolchain(self._target.tools)
        options = StageOptions(
            run_id=self._run_id,
            chart=self._chart,
            bin_dir=toolchain.bin_dir,
            helm=toolchain.path("helm"),
            context=self._target.context,
            namespace=self._namespace,
            overrides=self._overrides,
        )
        journal = Journal(self._results / "events.jsonl", Console().show)
        up = Up(options, self._values, self._results, journal)
        on_signals(up.interrupt)
        try:
            await up.execute()
        except NotSteady:
            await self._show()
            raise
        finally:
            journal.close()
        await self._show()

    async def _show(self) -> None:
        for standing in [one for one in await look() if one.run_id == self._run_id]:
            typer.echo("\n".join(stage_lines(standing)))


def take_down(
    name: Annotated[str, typer.Argument(metavar="ID", help="A run; may be left out if one is up.")] = "",
) -> None:
    """Remove what `up` or --keep left up.

    It makes sure that nothing is left but results.
    """
    import asyncio

    asyncio.run(_take_down(name))


async def _take_down(name: str) -> None:
    from scaletest.cli.tools import provide_toolchain
    from scaletest.host.ending import end_host
    from scaletest.host.registry import find_hosts
    from scaletest.run.fleet.leftovers import remove_stage
    from scaletest.run.target.contexts import find_stages

    hosts = {
        host.record.run_id: host
        for host in find_hosts()
        if host.record and host.record.run_id and (host.is_up or host.is_left)
    }
    stages = {stage.record.run_id: stage for stage in find_stages()}
    run_id = _chosen([*hosts, *stages], name)
    if host := hosts.get(run_id):
        refuse_owned(host)
        await end_host(host)
    else:
        stage = stages[run_id]
        if owner := stage.record.living_owner:
            raise UsageError(f"run {run_id} is under way: process {owner.pid}", hint="end that with Ctrl-C")
        await remove_stage(stage, (await provide_toolchain(["helm"])).path("helm"))
    typer.echo(f"{run_id} is down; nothing is left of it but its results")


def _chosen(run_ids: list[str], wanted: str) -> str:
    fits = [run_id for run_id in run_ids if run_id.startswith(wanted)]
    if wanted in run_ids:
        return wanted
    if len(fits) == 1:
        return fits[0]
    if not run_ids:
        raise UsageError("nothing is up", hint="scaletest-runner up --profile smoke")
    if not fits:
        raise UsageError(f"there is no run {wanted!r}", hint=f"up: {', '.join(run_ids)}")
    raise UsageError(f"several are up: {', '.join(fits)}", hint="name one of them")


def show_status(output: OutputOption = "text") -> None:
    """What is up, its pods, and how to reach it."""
    import asyncio

    standing = asyncio.run(look())
    if output == "json":
        typer.echo(json.dumps([stage_document(one) for one in standing], indent=2))
        return
    blocks = ["\n".join(stage_lines(one)) for one in standing]
    typer.echo("\n\n".join(blocks) if blocks else "nothing is up")
    say_if_something_is_left()


async def look() -> "list[Standing]":
    from scaletest.host.registry import find_hosts
    from scaletest.run.fleet.status import look_at_hosts, look_at_stages
    from scaletest.run.target.contexts import find_stages

    hosts = [host for host in find_hosts() if host.is_up and host.record and host.record.run_id]
    return [*await look_at_hosts(hosts), *await look_at_stages(find_stages())]


def collect_garbage(
    run_id: Annotated[str, typer.Option("--run", metavar="ID", help="Remove what is left of this run.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Remove all that killed runners left.")] = False,
    context: Annotated[
        str, typer.Option("--context", metavar="NAME", help="Look on this kube context too, by the runs' label.")
    ] = "",
) -> None:
    """Find what killed runners left, and remove it.

    Without --run or --all it is only listed. Nothing of a run whose runner lives is touched. What was left up on
    purpose goes only with --run.
    """
    import asyncio

    if run_id and everything:
        raise UsageError("--run and --all exclude each other")
    asyncio.run(_collect_garbage(run_id, everything, context))


async def _collect_garbage(run_id: str, everything: bool, context: str) -> None:
    import tempfile

    from scaletest.cli.tools import provide_toolchain
    from scaletest.run.fleet.leftovers import cluster_leftovers, leftovers_of_run, local_leftovers
    from scaletest.run.target.contexts import copy_context

    toolchain = await provide_toolchain(["helm", "kubectl"])
    helm = toolchain.path("helm")
    with tempfile.TemporaryDirectory(prefix="scaletest-gc-") as scratch:
        found = list(leftovers_of_run(run_id, helm) if run_id else local_leftovers(helm))
        if context:
            kubeconfig = Path(scratch) / "kubeconfig"
            await copy_context(toolchain.path("kubectl"), context, kubeconfig)
            known = {leftover.name for leftover in found}
            on_cluster = await cluster_leftovers(kubeconfig, Path(scratch), helm, run_id)
            found += [leftover for leftover in on_cluster if leftover.name not in known]
        if not found:
            typer.echo(f"nothing is left of {run_id}" if run_id else "nothing is left behind")
            return
        if not (run_id or everything):
            typer.echo("\n".join(table([("RUN", "LEFT"), *((leftover.name, leftover.what) for leftover in found)])))
            typer.echo("scaletest-runner gc --all removes it", err=True)
            return
        await _remove(found)


async def _remove(found: "Iterable[Leftover]") -> None:
    """All that can be removed goes, whatever else can not."""
    stuck = []
    for leftover in found:
        try:
            await leftover.remove()
            typer.echo(f"removed  {leftover.name}: {leftover.what}")
        except ScaletestError as error:
            stuck.append(f"{leftover.name}: {error.message}")
    if stuck:
        raise Leftovers(f"could not be removed: {'; '.join(stuck)}")

"""`up`: a fleet that stays between commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scaletest.cli.arguments import (
    ContextOption,
    FormerResultsOption,
    ImageOption,
    NamespaceOption,
    ProfileOption,
    ResultsOption,
    SeedOption,
    SetOption,
    SubstrateOption,
    YesOption,
    chosen_results,
)
from scaletest.cli.asking import ask_before_spending, show_before_starting
from scaletest.cli.examining import examine_request
from scaletest.errors import NotSteady
from scaletest.model.counting import counted
from scaletest.model.names import NAMESPACE

if TYPE_CHECKING:
    from scaletest.run.request.examining import Examined


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
    seed: SeedOption = "",
    namespace: NamespaceOption = NAMESPACE,
    kube_context: ContextOption = "",
    images: ImageOption = None,
    sets: SetOption = None,
    chart: Annotated[Path | None, typer.Option("--chart", metavar="DIR", help="Another chart than ours.")] = None,
    results: ResultsOption = None,
    former_results: FormerResultsOption = None,
    yes: YesOption = False,
) -> None:
    """Bring a fleet up and leave it, until `down`.

    BigFleet and its KWOK clusters, with every Pod of the demand bound.
    """
    import asyncio

    from scaletest.report.plan import fleet_lines
    from scaletest.run.request.request import Request, TargetOptions
    from scaletest.run.results_folder import make_results_folder
    from scaletest.run.steps.preflight import refuse

    target = TargetOptions(
        namespace=namespace,
        context=kube_context,
        images=images or (),
        sets=sets or (),
        chart=chart,
        results=chosen_results(results, former_results),
    )
    examined = examine_request(
        Request(
            profile=profile, substrate=substrate, seed=seed, target=target, clusters=clusters, pods=pods, judged=False
        )
    )
    refuse(examined.refusals)
    if profile:
        show_before_starting(fleet_lines(examined.plan))
    if examined.request.is_resized:
        typer.echo(_size_line(examined), err=True)
    ask_before_spending(examined.plan, examined.destination.context, yes)
    run_id, folder = make_results_folder(target.results, (profile and examined.plan.profile_name) or "up")
    asyncio.run(_bring_up(examined, run_id, folder))


def _size_line(examined: "Examined") -> str:
    values = examined.values("dry-run")
    size = f"{counted(values['kwok']['clusterCount'], 'cluster')} × {counted(values['loadProfile']['target'], 'Pod')}"
    return f"{'resized' if examined.request.profile else 'scale':<12}{size}\n"


async def _bring_up(examined: "Examined", run_id: str, results: Path) -> None:
    from scaletest.cli.signals import on_signals
    from scaletest.cli.tools import provide_toolchain
    from scaletest.report.screen.plain import Console
    from scaletest.run.fleet.up import Up
    from scaletest.run.journal import RunJournal

    toolchain = await provide_toolchain(examined.destination.tools)
    journal = RunJournal(results / "events.jsonl", Console().show)
    options = examined.install_options(run_id, toolchain.bin_dir, toolchain.path("helm"))
    up = Up(options, examined.values(run_id), results, journal)
    on_signals(up.interrupt)
    try:
        await up.execute()
    except NotSteady:
        await _show(run_id)
        raise
    finally:
        journal.close()
    await _show(run_id)


async def _show(run_id: str) -> None:
    from scaletest.cli.status_text import status_lines
    from scaletest.run.fleet.status import look_at_all

    for fleet in [one for one in await look_at_all() if one.run_id == run_id]:
        typer.echo("\n".join(status_lines(fleet)))

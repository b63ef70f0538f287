"""A run: the command without a name."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigfleet.process.commandline import show_version
from scaletest.cli.arguments import (
    DurationOption,
    MaxCostOption,
    MaxDurationOption,
    NamespaceOption,
    ProfileOption,
    SeedOption,
    SetOption,
    SubstrateOption,
    YesOption,
    choice,
    read_caps,
    read_plan,
)
from scaletest.cli.asking import ask_before_spending, show_before_starting
from scaletest.cli.plan import conclude
from scaletest.cli.results_folder import make_results_folder, refuse_results_folder
from scaletest.cli.showing import from_here
from scaletest.cli.target import (
    ContextOption,
    ImageOption,
    PrometheusOption,
    Target,
    read_target,
    refuse_without_images,
    refuse_without_prometheus,
)
from scaletest.cli.values import read_overrides, refuse_wrong_values
from scaletest.errors import UsageError
from scaletest.model.names import NAMESPACE
from scaletest.project import CHART
from scaletest.run.steps.guard import Caps

if TYPE_CHECKING:
    from scaletest.model.plan import Plan


def _show_version(asked: bool) -> None:
    if asked:
        show_version("scaletest-runner")


def run(
    context: typer.Context,
    profile: ProfileOption = "",
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Results folder; default: results/<run id>.")
    ] = None,
    max_duration: MaxDurationOption = "",
    max_cost_usd: MaxCostOption = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and what would be refused; stop.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything up at the end, even if the runner dies; `down` removes it.")
    ] = False,
    namespace: NamespaceOption = NAMESPACE,
    kube_context: ContextOption = "",
    images: ImageOption = None,
    prometheus_url: PrometheusOption = "",
    sets: SetOption = None,
    display: Annotated[
        str,
        typer.Option(
            "--display",
            metavar="KIND",
            help="live, plain or json; default: live on a terminal, else plain.",
            callback=choice("--display", "live", "plain", "json"),
        ),
    ] = "",
    version: Annotated[  # noqa: ARG001 (its callback ends the program)
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show it and exit.")
    ] = False,
) -> None:
    """Run a profile on a substrate: install, settle, soak, judge, keep the evidence, tear down."""
    if context.invoked_subcommand:
        _refuse_flags_of_a_run(context)
        return
    if not profile:
        raise UsageError("--profile is missing", hint="try --profile smoke")
    import asyncio

    from scaletest.report.dashboard import with_dashboard
    from scaletest.report.plan import full_plan_lines, plan_lines
    from scaletest.run.steps.preflight import refusals_of_run, refuse
    from scaletest.run.target.helm_errors import merged

    plan = read_plan(profile, substrate, duration, seed)
    overrides = read_overrides(sets or [], CHART)
    caps = read_caps(max_duration, max_cost_usd)
    refusals = refusals_of_run(plan, caps)
    target = Target()
    try:
        target = read_target(plan, kube_context, images or [], prometheus_url)
        refuse_without_images(target, overrides)
        refuse_without_prometheus(overrides)
    except UsageError as error:
        refusals.append(error)
    chosen = merged(target.images, overrides)
    try:
        refuse_wrong_values(CHART, with_dashboard(plan, plan.values("dry-run")), chosen, namespace)
    except UsageError as error:
        refusals.append(error)
    if dry_run:
        try:
            refuse_results_folder(output)
        except UsageError as error:
            refusals.append(error)
        typer.echo("\n".join(full_plan_lines(plan, caps, refusals)))
        conclude(plan, refusals)
        if target.context:
            typer.echo(f"context {target.context} was not asked; a run looks at it before it installs anything")
        return
    refuse(refusals)
    show_before_starting(plan_lines(plan))
    ask_before_spending(plan, target.context, yes)
    sys.exit(asyncio.run(_run(plan, target, output, caps, chosen, namespace, keep, display)))


def _refuse_flags_of_a_run(context: typer.Context) -> None:
    """Raises UsageError for a run's flags before another command's name: they would have no effect there."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name) if parameter.name else None
        if source is not None and source.name == "COMMANDLINE":
            flag, name = parameter.opts[0], context.invoked_subcommand
            raise UsageError(f"{flag} stands before {name}", hint=f"{name} takes its flags behind it: {name} {flag} …")


async def _run(
    plan: "Plan",
    target: Target,
    output: Path | None,
    caps: Caps,
    chosen: dict[str, Any],
    namespace: str,
    keep: bool,
    display: str,
) -> int:
    from scaletest.cli.signals import on_signals
    from scaletest.cli.tools import provide_toolchain
    from scaletest.report.display import display_for
    from scaletest.report.pages import RunPages
    from scaletest.run.fleet.stage import StageOptions
    from scaletest.run.journal import Journal
    from scaletest.run.lifecycle import Run, RunOptions

    view = display_for(display, plan, caps)
    run_id, results = make_results_folder(output, plan.profile_name)
    toolchain = await provide_toolchain(target.tools)
    view.header(run_id)
    stage = StageOptions(
        run_id=run_id,
        chart=CHART,
        bin_dir=toolchain.bin_dir,
        helm=toolchain.path("helm"),
        context=target.context,
        prometheus_url=target.prometheus_url,
        namespace=namespace,
        overrides=chosen,
    )
    options = RunOptions(results, stage, caps, RunPages(), keep=keep)
    journal = Journal(results / "events.jsonl", view.show)
    run = Run(plan, options, journal)
    on_signals(run.interrupt)
    try:
        with view.watching():
            outcome = await run.execute()
    finally:
        journal.close()
    view.verdict(run.summary, from_here(results))
    if keep:
        await _show_what_stays(run_id, view.line)
    return outcome.exit_code


async def _show_what_stays(run_id: str, show: Callable[[str], None]) -> None:
    from scaletest.cli.stage import look
    from scaletest.cli.standing import stage_lines

    for standing in [one for one in await look() if one.run_id == run_id]:
        for line in ["", *stage_lines(standing)]:
            show(line)

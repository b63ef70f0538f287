"""`run`, which is also what the command without a name does."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bigfleet.process.commandline import show_version
from scaletest.cli.arguments import (
    ContextOption,
    DurationOption,
    FormerResultsOption,
    ImageOption,
    MaxCostOption,
    MaxDurationOption,
    NamespaceOption,
    ProfileOption,
    PrometheusOption,
    ResultsOption,
    SeedOption,
    SetOption,
    SubstrateOption,
    YesOption,
    choice,
    chosen_results,
)
from scaletest.cli.asking import ask_before_spending, show_before_starting
from scaletest.cli.examining import examine_request
from scaletest.cli.showing import from_here
from scaletest.errors import UsageError
from scaletest.model.names import NAMESPACE

if TYPE_CHECKING:
    from scaletest.run.request.examining import Examined


def _show_version(asked: bool) -> None:
    if asked:
        show_version("scaletest-runner")


def run(
    context: typer.Context,
    profile: ProfileOption = "",
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = "",
    results: ResultsOption = None,
    former_results: FormerResultsOption = None,
    max_duration: MaxDurationOption = "",
    max_cost_usd: MaxCostOption = "",
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
    """Run a profile and judge it; nothing is left but results.

    Install, settle, soak, judge, keep the evidence, tear down. `run` may be left out.
    """
    if context.invoked_subcommand:
        _refuse_flags_of_a_run(context)
        return
    import asyncio

    from scaletest.report.plan import full_plan_lines, plan_lines
    from scaletest.run.request.request import Request, TargetOptions
    from scaletest.run.steps.preflight import refuse

    target = TargetOptions(
        namespace=namespace,
        context=kube_context,
        images=images or (),
        prometheus_url=prometheus_url,
        sets=sets or (),
        results=chosen_results(results, former_results),
    )
    examined = examine_request(
        Request(
            profile=profile,
            substrate=substrate,
            duration=duration,
            seed=seed,
            max_duration=max_duration,
            max_cost_usd=max_cost_usd,
            target=target,
        )
    )
    plan, goes_to = examined.plan, examined.destination.context
    if dry_run:
        typer.echo("\n".join(full_plan_lines(plan, examined.caps, examined.refusals)))
        refuse(examined.refusals)
        if goes_to:
            typer.echo(f"context {goes_to} was not asked; a run looks at it before it installs anything")
        return
    refuse(examined.refusals)
    show_before_starting(plan_lines(plan))
    ask_before_spending(plan, goes_to, yes)
    sys.exit(asyncio.run(_run(examined, target.results, keep, display)))


def _refuse_flags_of_a_run(context: typer.Context) -> None:
    """Raises UsageError for a run's flags before another command's name: they would have no effect there."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name) if parameter.name else None
        if source is not None and source.name == "COMMANDLINE":
            flag, name = parameter.opts[0], context.invoked_subcommand
            raise UsageError(f"{flag} stands before {name}", hint=f"{name} takes its flags behind it: {name} {flag} …")


async def _run(examined: "Examined", output: Path | None, keep: bool, display: str) -> int:
    from scaletest.cli.signals import on_signals
    from scaletest.cli.tools import provide_toolchain
    from scaletest.report.pages import RunPages
    from scaletest.report.screen.display import display_for
    from scaletest.run.journal import RunJournal
    from scaletest.run.lifecycle import Run, RunOptions
    from scaletest.run.results_folder import make_results_folder

    plan, caps = examined.plan, examined.caps
    view = display_for(display, plan, caps)
    run_id, results = make_results_folder(output, plan.profile_name)
    toolchain = await provide_toolchain(examined.destination.tools)
    view.header(run_id)
    install = examined.install_options(run_id, toolchain.bin_dir, toolchain.path("helm"))
    options = RunOptions(results, install, caps, RunPages(), keep=keep)
    journal = RunJournal(results / "events.jsonl", view.show)
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
    from scaletest.cli.status_text import status_lines
    from scaletest.run.fleet.status import look_at_all

    for fleet in [one for one in await look_at_all() if one.run_id == run_id]:
        for line in ["", *status_lines(fleet)]:
            show(line)

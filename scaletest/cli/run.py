"""A run: the command without a name."""

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bigfleet.commandline import show_version
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
from scaletest.cli.plan import conclude
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
from scaletest.run.guard import Caps

if TYPE_CHECKING:
    from scaletest.model.plan import Plan

PROJECT = Path(__file__).resolve().parents[2]
CHART = PROJECT / "chart"
# What a run writes into its folder, and would write over.
_EVIDENCE = ("summary.json", "events.jsonl", "plan.json", "rendered-values.yaml", "report.html", "junit.xml", "logs")


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
    from scaletest.run.blame import merged
    from scaletest.run.preflight import refusals_of_run, refuse

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
            _refuse_folder(output)
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


def show_before_starting(lines: Iterable[str]) -> None:
    """Show what is about to happen, before the user is asked to accept costs or waits for binaries."""
    from scaletest.report.console import Console

    console = Console()
    for line in [*lines, ""]:
        console.line(line)


def ask_before_spending(plan: "Plan", context: str | None, yes: bool) -> None:
    """A cloud run that costs money needs a yes from a person, or --yes."""
    from scaletest.model.contexts import classify_context
    from scaletest.run.guard import consent_question, needs_consent

    if yes or context is None:
        return
    if needs_consent(plan, classify_context(context)):
        typer.echo(consent_question(plan, context), nl=False, err=True)
        if not sys.stdin.readline().strip().lower().startswith("y"):
            raise UsageError("aborted: not confirmed", hint="pass --yes to skip the question")


def _results_folder(output: Path | None, profile_name: str) -> tuple[str, Path]:
    """The run's id, and a folder of its own for its results."""
    # It is a label's value too. Runs of the same second, from anywhere, may meet on one cluster.
    stamp = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{profile_name}")[:55].rstrip(".-")
    run_id = f"{stamp}-{secrets.token_hex(2)}"
    folder = output or PROJECT / "results" / run_id
    _refuse_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"no results can be written to {error.filename}: {error.strerror}") from error
    return run_id, folder


def _refuse_folder(folder: Path | None) -> None:
    """Raises UsageError if results cannot go there, or would go over others; makes nothing."""
    if folder is None:
        return
    if taken := [name for name in _EVIDENCE if (folder / name).exists()]:
        raise UsageError(f"{folder} has a {taken[0]} already", hint="give --output a folder of its own")
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"no results can be written to {folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"no results can be written to {folder}: {there} may not be written to")


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
    from scaletest.run.journal import Journal
    from scaletest.run.lifecycle import Run, RunOptions
    from scaletest.run.stage import StageOptions

    view = display_for(display, plan, caps)
    run_id, results = _results_folder(output, plan.profile_name)
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

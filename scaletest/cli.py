"""The `scaletest-runner` command. Thin: it reads arguments, calls the layers below, prints, and exits."""

import asyncio
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scaletest.errors import ScaletestError, UsageError

if TYPE_CHECKING:
    from scaletest.model.plan import Plan
    from scaletest.toolchain import Toolchain

PROJECT = Path(__file__).resolve().parents[1]

app = typer.Typer(
    help="Proves that BigFleet holds its SLOs at a given size, on real Kubernetes control planes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
tools_app = typer.Typer(help="The real binaries: etcd, Kubernetes, kwok, Prometheus, Helm.", no_args_is_help=True)
app.add_typer(tools_app, name="tools")

ProfileOption = Annotated[str, typer.Option("--profile", metavar="NAME|FILE", help="How much demand, which bars.")]
SubstrateOption = Annotated[str, typer.Option("--substrate", metavar="NAME|FILE", help="Where it runs.")]
DurationOption = Annotated[str, typer.Option("--duration", help="Length of the soak, e.g. 3m; default: the profile's.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Repeats a draw; default: the profile's.")]


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    profile: ProfileOption = "",
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = None,
    output: Annotated[Path | None, typer.Option("--output", help="Results folder; default: results/<run id>.")] = None,
    max_duration: Annotated[str, typer.Option("--max-duration", help="Cap on the whole run.")] = "2h",
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A Helm value that wins over the rendered one."),
    ] = None,
) -> None:
    """Run a profile on a substrate: install, settle, soak, judge, keep the evidence, tear down."""
    if context.invoked_subcommand:
        return
    if not profile:
        raise UsageError("--profile is missing", hint="try --profile smoke")
    plan = _make_plan(profile, substrate, duration, seed)
    cap = _duration("--max-duration", max_duration)
    _refuse_beyond_cap(plan, cap)
    sys.exit(asyncio.run(_run(plan, output, cap, _overrides(sets or []))))


@app.command("plan")
def show_plan(
    profile: ProfileOption,
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Show what a run would install, how long it may take and what it would cost."""
    from scaletest.model.plan import plan_lines

    if output not in ("text", "json"):
        raise UsageError(f"--output {output!r} is neither text nor json")
    plan = _make_plan(profile, substrate, duration, seed)
    typer.echo(json.dumps(plan.document(), indent=2) if output == "json" else "\n".join(plan_lines(plan)))


@tools_app.command("install")
def tools_install() -> None:
    """Build what is missing, once, into the user cache."""
    asyncio.run(_toolchain())


@tools_app.command("list")
def tools_list() -> None:
    """Name, version, origin and size of each binary."""
    from scaletest.toolchain import list_tools

    for row in asyncio.run(list_tools()):
        size = f"{row.size_bytes / 1e6:.0f} MB" if row.size_bytes else "–"
        typer.echo(f"{row.name:<24} {row.version:<10} {row.source or 'not built':<12} {size:>7}  {row.path or ''}")


@tools_app.command("path")
def tools_path(name: Annotated[str, typer.Argument(help="A tool's name; without it the folder of all.")] = "") -> None:
    """Where a binary is."""
    from scaletest.toolchain import TOOL_NAMES

    if name and name not in TOOL_NAMES:
        raise UsageError(f"there is no tool {name!r}", hint=f"the tools are {', '.join(TOOL_NAMES)}")
    toolchain = asyncio.run(_toolchain())
    typer.echo(toolchain.path(name) if name else toolchain.bin_dir)


def _make_plan(profile: str, substrate: str, duration: str, seed: int | None) -> "Plan":
    from scaletest.model.plan import make_plan
    from scaletest.model.reading import read_profile, read_substrate

    profile_model, catalog, profile_name = read_profile(profile)
    substrate_model, substrate_name = read_substrate(substrate)
    soak = _duration("--duration", duration) if duration else None
    return make_plan(
        profile_model, profile_name, catalog, substrate_model, substrate_name, soak_seconds=soak, seed=seed
    )


def _duration(flag: str, text: str) -> float:
    from scaletest.model.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _refuse_beyond_cap(plan: "Plan", cap_seconds: float) -> None:
    from scaletest.model.durations import format_duration

    needed = plan.ramp_budget_seconds + plan.soak_seconds
    if needed > cap_seconds:
        raise UsageError(
            f"settle and soak may take {format_duration(needed)}, --max-duration is {format_duration(cap_seconds)}",
            hint=f"--max-duration {format_duration(needed + 1800)}",
        )


def _results_folder(output: Path | None, profile_name: str) -> tuple[str, Path]:
    """The run's id, and a folder of its own for its results."""
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{profile_name}"
    try:
        if output:
            output.mkdir(parents=True, exist_ok=True)
            if any((output / name).exists() for name in ("events.jsonl", "summary.json")):
                raise UsageError(f"{output} already holds a run", hint="give --output a folder of its own")
            return stamp, output
        results = PROJECT / "results"
        results.mkdir(exist_ok=True)
        for run_id in (stamp, *(f"{stamp}-{number}" for number in range(2, 100))):
            try:
                (results / run_id).mkdir()
            except FileExistsError:
                continue  # another run began in the same second
            return run_id, results / run_id
    except OSError as error:
        raise UsageError(f"no results can be written to {error.filename}: {error.strerror}") from error
    raise UsageError(f"{results} has a hundred runs of this second")


def _overrides(sets: list[str]) -> dict[str, Any]:
    """`a.b=c` as nested maps; values are read as YAML, as Helm users expect of numbers and booleans."""
    import yaml

    overrides: dict[str, Any] = {}
    for pair in sets:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise UsageError(f"--set {pair!r} is not KEY=VALUE")
        _refuse_unknown_value(path)
        *parents, last = path.split(".")
        at = overrides
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = yaml.safe_load(value)
    return overrides


def _refuse_unknown_value(path: str) -> None:
    """A Helm value that no template reads would be ignored in silence."""
    import yaml

    at: Any = yaml.safe_load((PROJECT / "chart" / "values.yaml").read_text())
    for part in path.split("."):
        if not isinstance(at, dict) or (at and part not in at):
            raise UsageError(f"--set {path}: the chart has no such value", hint="chart/values.yaml lists them")
        at = at.get(part, {})


async def _toolchain() -> "Toolchain":
    from scaletest.toolchain import Display, ensure

    with Display(sys.stderr) as display:
        return await ensure(progress=display)


async def _run(plan: "Plan", output: Path | None, cap_seconds: float, overrides: dict[str, Any]) -> int:
    from scaletest.model.plan import plan_lines
    from scaletest.report.console import Console, verdict_lines
    from scaletest.run.journal import Journal
    from scaletest.run.lifecycle import Run, RunOptions

    console = Console()
    toolchain = await _toolchain()
    run_id, results = _results_folder(output, plan.profile_name)
    for line in [f"run        {run_id}", *plan_lines(plan), ""]:
        console.line(line)
    options = RunOptions(
        run_id=run_id,
        output=results,
        chart=PROJECT / "chart",
        bin_dir=toolchain.bin_dir,
        helm=toolchain.path("helm"),
        max_duration_seconds=cap_seconds,
        overrides=overrides,
    )
    journal = Journal(results / "events.jsonl", console.show)
    run = Run(plan, options, journal)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, run.interrupt)
    try:
        outcome = await run.execute()
    finally:
        journal.close()
    for line in verdict_lines(json.loads((results / "summary.json").read_text()), results):
        console.line(line)
    return outcome.exit_code


def main() -> None:
    try:
        app(standalone_mode=True)
    except ScaletestError as error:
        typer.echo(f"scaletest-runner: {error.message}", err=True)
        if error.hint:
            typer.echo(f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

"""All commands under one name, and the one place where an error becomes a sentence and an exit code."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from bigfleet.process.commandline import end
from scaletest.cli.documents import list_profiles, list_substrates, show_schema, validate
from scaletest.cli.evidence import check, replay
from scaletest.cli.fleet import collect_garbage, show_status, take_down
from scaletest.cli.host import host_app
from scaletest.cli.plan import show_plan
from scaletest.cli.rbac import show_rbac
from scaletest.cli.run import run
from scaletest.cli.simulate import simulate_profile
from scaletest.cli.tools import tools_app
from scaletest.cli.up import bring_up
from scaletest.errors import Interrupted, ScaletestError

app = typer.Typer(
    help="Proves that BigFleet holds its SLOs at a given size, on real Kubernetes control planes.\n\n"
    "Without a command it runs a profile: scaletest-runner --profile smoke; that is the command `run`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich alone would double the time that --help takes
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.callback(invoke_without_command=True)(run)
app.command("run")(run)
app.command("up")(bring_up)
app.command("down")(take_down)
app.command("status")(show_status)
app.command("gc")(collect_garbage)
app.command("plan")(show_plan)
app.command("simulate")(simulate_profile)
app.command("check")(check)
app.command("replay")(replay)
app.command("profiles")(list_profiles)
app.command("substrates")(list_substrates)
app.command("validate")(validate)
app.command("schema")(show_schema)
app.command("rbac")(show_rbac)
app.add_typer(host_app, name="host")
app.add_typer(tools_app, name="tools")


def _end(*_: object) -> None:
    os.write(2, b"scaletest-runner: interrupted\n")
    raise SystemExit(Interrupted.exit_code)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Until a command has something to clean up, and takes the signals for that, one of them just ends it."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no × shows ? instead of a traceback
    end("scaletest-runner", _run)


def _run() -> int:
    try:
        with _ended_by_signals():
            app(standalone_mode=True)
    except ScaletestError as error:
        typer.echo(f"scaletest-runner: {error.message}", err=True)
        if error.hint:
            typer.echo(f"hint: {error.hint}", err=True)
        return error.exit_code
    return 0

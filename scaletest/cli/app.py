"""All commands under one name, and the one place where an error becomes a sentence and an exit code."""

import sys

import typer

from scaletest.cli.documents import list_profiles, list_substrates, show_schema, validate
from scaletest.cli.plan import show_plan
from scaletest.cli.run import run
from scaletest.cli.simulate import simulate_profile
from scaletest.cli.tools import tools_app
from scaletest.errors import ScaletestError

app = typer.Typer(
    help="Proves that BigFleet holds its SLOs at a given size, on real Kubernetes control planes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich alone would double the time that --help takes
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.callback(invoke_without_command=True)(run)
app.command("plan")(show_plan)
app.command("simulate")(simulate_profile)
app.command("profiles")(list_profiles)
app.command("substrates")(list_substrates)
app.command("validate")(validate)
app.command("schema")(show_schema)
app.add_typer(tools_app, name="tools")


def main() -> None:
    try:
        app(standalone_mode=True)
    except ScaletestError as error:
        typer.echo(f"scaletest-runner: {error.message}", err=True)
        if error.hint:
            typer.echo(f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)

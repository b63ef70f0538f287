"""Options that several commands share. Their text is read in `scaletest.run.request`, alike for every command."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from scaletest.errors import UsageError
from scaletest.model.files.problems import either
from scaletest.run.steps.guard import DEFAULT_MAX_COST_USD, DEFAULT_MAX_DURATION

ProfileOption = Annotated[
    str, typer.Option("--profile", metavar="NAME|FILE", help="How much demand, which bars; see `profiles`.")
]
SubstrateOption = Annotated[
    str, typer.Option("--substrate", metavar="NAME|FILE", help="Where it runs; see `substrates`.")
]
DurationOption = Annotated[
    str, typer.Option("--duration", metavar="TIME", help="Length of the soak, e.g. 3m; default: the profile's.")
]
SeedOption = Annotated[str, typer.Option("--seed", metavar="NUMBER", help="Repeats a draw; default: the profile's.")]
MaxDurationOption = Annotated[
    str,
    typer.Option(
        "--max-duration", metavar="TIME", help=f"Cap on the whole run's time; default: {DEFAULT_MAX_DURATION}."
    ),
]
MaxCostOption = Annotated[
    str,
    typer.Option(
        "--max-cost-usd", metavar="USD", help=f"Cap on the estimated price; default: {DEFAULT_MAX_COST_USD:g}."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A Helm value that wins over the rendered one."),
]


def choice(flag: str, *names: str) -> Callable[[str], str]:
    """What reads a flag that takes one of these names; empty stands for a default of its own."""

    def read(value: str) -> str:
        if value and value not in names:
            raise UsageError(f"{flag}: {value!r} is not {either(names)}")
        return value

    return read


OutputOption = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FORMAT", help="text or json.", callback=choice("--output", "text", "json")),
]


NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Where on the cluster; lets runs stand side by side.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before a paid run.")]
ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="The kube context to run on; default: the current one.")
]
ImageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="[PART=]IMAGE",
        help="The image of bigfleet or of scaletest (PART), or one that is both; with a tag or a digest.",
    ),
]
PrometheusOption = Annotated[
    str,
    typer.Option(
        "--prometheus-url",
        metavar="URL",
        help="Where the run's Prometheus answers; default: a port-forward of our own.",
    ),
]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", metavar="DIR", help="Folder for the results; default: results/<run id>.")
]
# --output is a format wherever else it is; as the folder of the results it is kept for scripts that know it.
FormerResultsOption = Annotated[Path | None, typer.Option("--output", metavar="DIR", hidden=True)]


def chosen_results(results: Path | None, former: Path | None) -> Path | None:
    """The folder that --results names, or its former name --output."""
    if former is None:
        return results
    if results is not None:
        raise UsageError("--output is the former name of --results", hint="give --results alone")
    typer.echo("notice: --output DIR is called --results DIR now", err=True)
    return former

"""Arguments that several commands share, and how their text is read."""

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from scaletest.errors import UsageError
from scaletest.model.files.problems import either
from scaletest.run.steps.guard import DEFAULT_CAPS, DEFAULT_MAX_COST_USD, DEFAULT_MAX_DURATION, Caps

if TYPE_CHECKING:
    from scaletest.model.plan import Plan

_NAMESPACE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

ProfileOption = Annotated[
    str, typer.Option("--profile", metavar="NAME|FILE", help="How much demand, which bars; see `profiles`.")
]
SubstrateOption = Annotated[
    str, typer.Option("--substrate", metavar="NAME|FILE", help="Where it runs; see `substrates`.")
]
DurationOption = Annotated[
    str, typer.Option("--duration", metavar="TIME", help="Length of the soak, e.g. 3m; default: the profile's.")
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="NUMBER", min=0, max=2**53 - 1, help="Repeats a draw; default: the profile's."),
]
MaxDurationOption = Annotated[
    str,
    typer.Option(
        "--max-duration", metavar="TIME", help=f"Cap on the whole run's time; default: {DEFAULT_MAX_DURATION}."
    ),
]
MaxCostOption = Annotated[
    float | None,
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


def _is_a_namespace(name: str) -> str:
    if not _NAMESPACE_NAME.fullmatch(name):
        raise UsageError(f"--namespace: {name!r} is not a name", hint="a-z, 0-9 and - between them, at most 63")
    return name


NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Where on the cluster; lets runs stand side by side.",
        callback=_is_a_namespace,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before a paid run.")]


def read_plan(profile: str, substrate: str, duration: str, seed: int | None) -> "Plan":
    """The plan that the flags ask for."""
    from scaletest.host.machine import this_machine
    from scaletest.model.files.reading import read_profile, read_substrate
    from scaletest.model.plan import make_plan

    profile_model, catalog, profile_name = read_profile(profile)
    substrate_model, substrate_name = read_substrate(substrate)
    soak = read_duration("--duration", duration) if duration else None
    return make_plan(
        profile_model,
        profile_name,
        catalog,
        substrate_model,
        substrate_name,
        this_host=this_machine(),
        soak_seconds=soak,
        seed=seed,
    )


def read_caps(max_duration: str, max_cost_usd: float | None) -> Caps:
    """The caps that the flags set; where one is left out, its default."""
    if max_cost_usd is not None and not 0 <= max_cost_usd < math.inf:
        raise UsageError(f"--max-cost-usd: {max_cost_usd:g} is not an amount of dollars")
    return Caps(
        read_duration("--max-duration", max_duration) if max_duration else DEFAULT_CAPS.max_duration_seconds,
        DEFAULT_CAPS.max_cost_usd if max_cost_usd is None else max_cost_usd,
    )


def read_duration(flag: str, text: str) -> float:
    from scaletest.model.documents.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error

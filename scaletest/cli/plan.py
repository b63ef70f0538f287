"""`plan`: what a run would be, without starting anything."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from scaletest.cli.arguments import (
    DurationOption,
    MaxCostOption,
    MaxDurationOption,
    ProfileOption,
    SeedOption,
    SubstrateOption,
    choice,
    read_caps,
    read_plan,
)
from scaletest.errors import UsageError

if TYPE_CHECKING:
    from scaletest.model.plan import Plan

FormatOption = Annotated[
    str,
    typer.Option(
        *("--output", "-o"),
        metavar="FORMAT",
        help="text, json, or values (the rendered Helm values).",
        callback=choice("--output", "text", "json", "values"),
    ),
]


def show_plan(
    profile: ProfileOption,
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = None,
    max_duration: MaxDurationOption = "",
    max_cost_usd: MaxCostOption = None,
    output: FormatOption = "text",
) -> None:
    """Show what a run would be: its size, time, price, gates.

    Ends with 0 if such a run would start, and with 2 if it would be refused, beyond a cap or for another reason; the
    plan is shown either way.
    """
    import json

    import yaml

    from scaletest.report.plan import full_plan_lines, plan_document
    from scaletest.run.steps.preflight import refusals_of_run

    plan = read_plan(profile, substrate, duration, seed)
    caps = read_caps(max_duration, max_cost_usd)
    refusals = refusals_of_run(plan, caps)
    if output == "json":
        typer.echo(json.dumps(plan_document(plan, caps), indent=2))
    elif output == "values":
        typer.echo(yaml.safe_dump(plan.values("<run id>"), sort_keys=False), nl=False)
    else:
        typer.echo("\n".join(full_plan_lines(plan, caps, refusals)))
    conclude(plan, refusals)


def conclude(plan: "Plan", refusals: Sequence[UsageError]) -> None:
    """After a plan was shown: it says why a run would be refused; what to do about it belongs beside the exit code."""
    from scaletest.run.steps.preflight import refuse

    refuse(refusals, f"{plan.profile_name} on {plan.substrate_name} would be refused")

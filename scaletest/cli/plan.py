"""`plan`: what a run would be, without starting anything."""

from typing import Annotated

import typer

from scaletest.cli.arguments import (
    DurationOption,
    MaxCostOption,
    MaxDurationOption,
    ProfileOption,
    SeedOption,
    SubstrateOption,
    choice,
)
from scaletest.cli.examining import examine_request

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
    profile: ProfileOption = "",
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = "",
    max_duration: MaxDurationOption = "",
    max_cost_usd: MaxCostOption = "",
    output: FormatOption = "text",
) -> None:
    """Show what a run would be: its size, time, price, gates.

    Ends with 0 if such a run would start, and with 2 if it would be refused, beyond a cap or for another reason; the
    plan is shown either way.
    """
    import json

    import yaml

    from scaletest.report.plan import full_plan_lines, plan_document
    from scaletest.run.request.request import Request
    from scaletest.run.steps.preflight import refuse

    examined = examine_request(
        Request(
            profile=profile,
            substrate=substrate,
            duration=duration,
            seed=seed,
            max_duration=max_duration,
            max_cost_usd=max_cost_usd,
        )
    )
    plan, caps, refusals = examined.plan, examined.caps, examined.refusals
    if output == "json":
        typer.echo(json.dumps(plan_document(plan, caps, refusals=refusals), indent=2))
    elif output == "values":
        typer.echo(yaml.safe_dump(plan.values("<run id>"), sort_keys=False), nl=False)
    else:
        typer.echo("\n".join(full_plan_lines(plan, caps, refusals)))
    refuse(refusals)

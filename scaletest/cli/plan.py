"""`plan`: what a run would be, without starting anything."""

from typing import Annotated

import typer

from scaletest.cli.arguments import (
    DEFAULT_MAX_DURATION,
    DurationOption,
    MaxCostOption,
    MaxDurationOption,
    ProfileOption,
    SeedOption,
    SubstrateOption,
    read_duration,
    read_plan,
)
from scaletest.errors import UsageError

FormatOption = Annotated[
    str, typer.Option("--output", "-o", metavar="FORMAT", help="text, json, or values (the rendered Helm values).")
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

    Without --max-duration and --max-cost-usd it says which of them a run would need; with them it refuses as a run
    would.
    """
    import json

    import yaml

    from scaletest.report.plan import full_plan_lines, plan_document
    from scaletest.run.guard import DEFAULT_MAX_COST_USD, needed_flags, refuse_beyond_caps
    from scaletest.run.preflight import refusals_of

    if output not in ("text", "json", "values"):
        raise UsageError(f"--output {output!r} is none of text, json, values")
    plan = read_plan(profile, substrate, duration, seed)
    cap = read_duration("--max-duration", max_duration) if max_duration else None
    if cap is not None or max_cost_usd is not None:
        refuse_beyond_caps(plan, *(float("inf") if given is None else given for given in (cap, max_cost_usd)))
    if output == "json":
        typer.echo(json.dumps(plan_document(plan), indent=2))
    elif output == "values":
        typer.echo(yaml.safe_dump(plan.values("<run id>"), sort_keys=False), nl=False)
    else:
        default_cap = read_duration("--max-duration", DEFAULT_MAX_DURATION)
        flags = needed_flags(plan, cap or default_cap, DEFAULT_MAX_COST_USD if max_cost_usd is None else max_cost_usd)
        typer.echo("\n".join(full_plan_lines(plan, flags)))
    if refusals := refusals_of(plan):
        # The plan says why; what to do about it belongs beside the exit code.
        hints = dict.fromkeys(refusal.hint for refusal in refusals if refusal.hint)
        raise UsageError(f"{plan.profile_name} on {plan.substrate_name} would be refused", hint="; ".join(hints))

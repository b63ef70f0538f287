"""`plan`: what a run would be, without starting anything."""

import json
from typing import Annotated

import typer

from scaletest.cli.arguments import DurationOption, ProfileOption, SeedOption, SubstrateOption, read_plan
from scaletest.errors import UsageError


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
    plan = read_plan(profile, substrate, duration, seed)
    typer.echo(json.dumps(plan.document(), indent=2) if output == "json" else "\n".join(plan_lines(plan)))

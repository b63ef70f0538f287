"""`simulate`: what a run would show, from the real engine in virtual time; nothing is started."""

import sys
import time

import typer

from scaletest.cli.arguments import (
    DurationOption,
    OutputOption,
    ProfileOption,
    SeedOption,
    SubstrateOption,
)
from scaletest.exit_codes import ExitCode

_PROGRESS_SECONDS = 2.0


def simulate_profile(
    profile: ProfileOption = "",
    substrate: SubstrateOption = "embedded",
    duration: DurationOption = "",
    seed: SeedOption = "",
    output: OutputOption = "text",
) -> None:
    """Predict a run in seconds, without Kubernetes.

    Steady state, reclaims, shortfalls and purchases, against the profile's bars: same demand, seeds, churn and losses
    as a run, and the real decision engine. Ends with 1 when a bar would be missed and with 3 when the fleet would not
    settle.
    """
    import json

    from scaletest.report.prediction import prediction_document, prediction_lines
    from scaletest.run.offline.simulate import simulate
    from scaletest.run.request.request import Request, read_plan

    plan = read_plan(Request(profile=profile, substrate=substrate, duration=duration, seed=seed))
    began = time.perf_counter()
    prediction = simulate(plan, _Progress())
    wall = time.perf_counter() - began
    if output == "json":
        typer.echo(json.dumps(prediction_document(plan, prediction, wall), indent=2))
    else:
        typer.echo("\n".join(prediction_lines(plan, prediction, wall)))
    if not prediction.passes:
        sys.exit(ExitCode.GATE_FAILED)


class _Progress:
    """A line on stderr now and then, so that a long simulation is not silent."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, phase: str, done: float, total: float) -> None:
        if time.monotonic() - self._said >= _PROGRESS_SECONDS:
            self._said = time.monotonic()
            typer.echo(f"{phase:<7} {done:,.0f} of {total:,.0f} virtual seconds", err=True)

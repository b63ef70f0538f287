"""What a user sees and accepts before anything is started: the plan, and its price."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from scaletest.errors import UsageError

if TYPE_CHECKING:
    from scaletest.model.plan import Plan


def show_before_starting(lines: Iterable[str]) -> None:
    """Show what is about to happen, before the user is asked to accept costs or waits for binaries."""
    from scaletest.report.screen.plain import Console

    console = Console()
    for line in [*lines, ""]:
        console.line(line)


def ask_before_spending(plan: "Plan", context: str | None, yes: bool) -> None:
    """A cloud run that costs money needs a yes from a person, or --yes."""
    from scaletest.model.contexts import classify_context
    from scaletest.run.steps.guard import consent_question, needs_consent

    if yes or context is None:
        return
    if needs_consent(plan, classify_context(context)):
        typer.echo(consent_question(plan, context), nl=False, err=True)
        if not sys.stdin.readline().strip().lower().startswith("y"):
            raise UsageError("aborted: not confirmed", hint="pass --yes to skip the question")

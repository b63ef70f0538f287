"""The ways to watch a run: live on a terminal, plain lines for logs, JSON lines for machines."""

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TextIO

from scaletest.judge.summary import Summary
from scaletest.model.plan import Plan
from scaletest.report.plan import plan_document
from scaletest.report.screen.plain import Console, verdict_lines
from scaletest.run.journal import Event, record_of
from scaletest.run.steps.guard import Caps


class Display(Protocol):
    """What watches a run from its plan to its verdict."""

    def header(self, run_id: str) -> None:
        """When the run has its id; its plan has been shown."""
        ...

    def watching(self) -> AbstractContextManager[object]:
        """Around the run: what holds the terminal gives it back, however the run ends."""
        ...

    def show(self, event: Event) -> None:
        """While it goes on."""
        ...

    def verdict(self, summary: Summary, output: str) -> None:
        """At its end; `output` is where the evidence is."""
        ...

    def line(self, text: str) -> None:
        """Anything else for people."""
        ...


class PlainView:
    """A line for each event."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(stream)
        self.show = self._console.show
        self.line = self._console.line

    def watching(self) -> AbstractContextManager[object]:
        return nullcontext()

    def header(self, run_id: str) -> None:
        for line in [f"run         {run_id}", ""]:
            self.line(line)

    def verdict(self, summary: Summary, output: str) -> None:
        for line in verdict_lines(summary, output):
            self.line(line)


class JsonView:
    """An object on each line: the plan, every event as events.jsonl has it, and the summary."""

    def __init__(self, plan: Plan, caps: Caps, stream: TextIO) -> None:
        self._plan = plan
        self._caps = caps
        self._console = Console(stream)

    def watching(self) -> AbstractContextManager[object]:
        return nullcontext()

    def header(self, run_id: str) -> None:
        self._say({"phase": "plan", "plan": plan_document(self._plan, self._caps, run_id)})

    def show(self, event: Event) -> None:
        self._say(record_of(event))

    def verdict(self, summary: Summary, output: str) -> None:
        self._say({"phase": "verdict", "results": output, "summary": summary.document()})

    def line(self, text: str) -> None:
        """What is meant for people only is left out."""

    def _say(self, document: Mapping[str, object]) -> None:
        self._console.line(json.dumps(document, default=str))


def display_for(asked: str, plan: Plan, caps: Caps) -> Display:
    """The display that was asked for; by default live if stderr is a terminal, plain if not."""
    kind = asked or ("live" if sys.stderr.isatty() else "plain")
    if kind == "json":
        return JsonView(plan, caps, sys.stdout)
    if kind == "live":
        from scaletest.report.screen.live import LiveView

        return LiveView(plan, sys.stderr)
    return PlainView(sys.stderr)

"""The live view of a run on a terminal: where it stands, how the fleet fills, each gate with its margin, what happened.

`lines` is a pure function of what was heard so far; rich redraws it in place and gives the terminal back at the end.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TextIO

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.text import Text

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.listing import plain_gates, reclaim_gate
from scaletest.judge.summary import Summary
from scaletest.model.counting import noun
from scaletest.model.documents.durations import format_duration
from scaletest.model.plan import Plan
from scaletest.report.margins import margin_of, percent
from scaletest.report.screen.plain import Console, is_quiet, verdict_lines
from scaletest.run.journal import Event
from scaletest.run.steps.overview import FleetFigures

_REDRAWS_PER_SECOND = 2
_STEPS = ("host", "install", "settle", "soak", "evidence", "teardown")
_BAR = 20
_MOST_CLUSTERS = 3
# One column of gates needs so many rows around it; fewer, and they stand in two.
_ROOMY = 34
# A line on the gates that are not shown, and what the run says.
_BELOW_GATES = 5
# Of its bar; a gate with less to spare is shown before all others.
_NEAR = 0.2


class LiveView:
    """Hears the run's events and shows them; the plan before and the verdict after are plain lines."""

    def __init__(self, plan: Plan, stream: TextIO) -> None:
        self._plain = Console(stream)
        self._rich = RichConsole(file=stream, highlight=False)
        self._state = Heard(plan)
        self._live = Live(
            console=self._rich,
            get_renderable=self._draw,
            refresh_per_second=_REDRAWS_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def watching(self) -> AbstractContextManager[object]:
        return self._live

    def header(self, run_id: str) -> None:
        for line in [f"run         {run_id}", ""]:
            self._plain.line(line)

    def show(self, event: Event) -> None:
        self._state.hear(event, time.monotonic())

    def verdict(self, summary: Summary, output: str) -> None:
        for line in [*verdict_lines(summary, output), *(f"hint       {hint}" for hint in self._state.hints)]:
            self._plain.line(line)

    def line(self, text: str) -> None:
        self._plain.line(text)

    def _draw(self) -> Group:
        size = self._rich.size
        # The last row stays free, so that the terminal never scrolls.
        shown = lines(self._state, size.width, size.height - 1, time.monotonic())
        return Group(*shown)


class Heard:
    """What the events said so far."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.step = ""
        self.steps: set[str] = set()
        # They outlive the view, which is erased at the end.
        self.hints: list[str] = []
        self.messages: deque[str] = deque(maxlen=40)
        self.fleet: FleetFigures = {}
        self.gates: dict[str, float | None] = {}
        self.soak_began: float | None = None
        self._elapsed = 0.0
        self._heard_at: float | None = None

    def hear(self, event: Event, now: float) -> None:
        self._elapsed, self._heard_at = event.elapsed_seconds, now
        if event.phase in _STEPS:
            if event.phase == "soak" and self.soak_began is None:
                self.soak_began = now
            self.step = event.phase
            self.steps.add(event.phase)
        self.fleet = event.fields.get("fleet", self.fleet)
        self.gates = event.fields.get("gates", self.gates)
        if hint := event.fields.get("hint"):
            self.hints.append(hint)
        if not is_quiet(event.phase):
            stamp = format_duration(event.elapsed_seconds)
            self.messages.append(f"{stamp:>7}  {event.phase:<9} {event.message}")

    def elapsed(self, now: float) -> float:
        return self._elapsed + (now - self._heard_at if self._heard_at is not None else 0.0)


def lines(heard: Heard, width: int, height: int, now: float) -> list[Text]:
    """What the screen shows, cut to its size."""
    gates = [gate for gate in (*plain_gates(heard.plan), reclaim_gate(heard.plan)) if not gate.off]
    columns = 1 if height >= _ROOMY else 2
    above = [*_head(heard, now), *_fleet(heard), Text("")]
    shown_gates = _most_telling(heard, gates, columns * max(1, height - len(above) - _BELOW_GATES))
    body = [*above, *_gates(heard, shown_gates, width, columns)]
    if len(shown_gates) < len(gates):
        body.append(Text(f"{len(gates) - len(shown_gates)} more bars, none of them nearer", style="dim"))
    room = height - len(body) - 1
    if room > 0:
        body += [Text(""), *(Text(message, style="dim") for message in list(heard.messages)[-room:])]
    shown = body[: max(1, height)]
    for text in shown:
        text.truncate(width, overflow="ellipsis")
        text.no_wrap = True
    return shown


def _most_telling(heard: Heard, gates: Sequence[Gate], room: int) -> list[Gate]:
    """As many as there is room for, in their usual order: those near their bar or beyond it, then the first ones."""

    def margin(gate: Gate) -> float:
        value = heard.gates.get(gate.key)
        return 1.0 if value is None else margin_of(value, gate.bar, gate.least)

    near = sorted((gate for gate in gates if margin(gate) < _NEAR), key=margin)
    chosen = {gate.key for gate in [*near, *(gate for gate in gates if gate not in near)][:room]}
    return [gate for gate in gates if gate.key in chosen]


def _head(heard: Heard, now: float) -> Iterator[Text]:
    plan = heard.plan
    predicted = [phase.predicted_seconds for phase in plan.phases]
    about = f" of about {format_duration(sum(s for s in predicted if s))}" if None not in predicted else ""
    yield Text.assemble(
        (f"{plan.profile_name} on {plan.substrate_name}", "bold"), f"   {format_duration(heard.elapsed(now))}{about}"
    )
    steps = Text()
    for step in _STEPS:
        here = step == heard.step
        steps.append(f"{'▸' if here else '✓' if step in heard.steps else '·'} {step}  ", "bold cyan" if here else "dim")
    if heard.step == "soak" and heard.soak_began is not None:
        passed = min(plan.soak_seconds, now - heard.soak_began)
        share = passed / plan.soak_seconds if plan.soak_seconds else 1.0
        steps.append(f"{_bar(share, 10)} {format_duration(plan.soak_seconds - passed)} left")
    yield steps


def _fleet(heard: Heard) -> Iterator[Text]:
    plan, fleet = heard.plan, heard.fleet
    active = fleet.get("active", {})
    target = plan.geometry.pods_per_cluster
    fills = sorted((min(1.0, alive / target), pod, alive) for pod, alive in active.items())
    for share, pod, alive in fills[:_MOST_CLUSTERS]:
        yield Text.assemble(f"{pod:<16} ", (_bar(share), "cyan"), f" {alive:,.0f}/{target:,} Pods asked for")
    if len(fills) > _MOST_CLUSTERS:
        full = sum(1 for share, _, _ in fills if share >= 1)
        yield Text(f"the emptiest {_MOST_CLUSTERS} of {len(fills):,} clusters; {full:,} {noun(full, 'is', 'are')} full")
    if not fleet:
        return
    yield Text.assemble(
        f"Pods bound {_count(fleet.get('bound'))}/{plan.pods:,} · shortfalls ",
        (_count(fleet.get("shortfalls")), "bold red" if fleet.get("shortfalls") else ""),
        f" · machines lost {_count(fleet.get('lost'))}",
    )
    states = sorted(fleet.get("machines", {}).items(), key=lambda entry: -entry[1])
    yield Text(f"machines   {' · '.join(f'{state} {count:,.0f}' for state, count in states)}")


def _gates(heard: Heard, gates: Sequence[Gate], width: int, columns: int) -> Iterator[Text]:
    room = width // columns - 1
    rows = -(-len(gates) // columns)
    for row in range(rows):
        line = Text()
        for gate in gates[row::rows]:
            cell = _gate(gate, heard.gates.get(gate.key), room)
            cell.pad_right(max(0, room + 1 - cell.cell_len))
            line.append_text(cell)
        yield line


def _gate(gate: Gate, value: float | None, room: int) -> Text:
    margin = None if value is None else margin_of(value, gate.bar, gate.least)
    style = "dim" if margin is None else "red" if margin < 0 else "green"
    mark = "·" if margin is None else "✗" if margin < 0 else "✓"
    figures = f"{_short(value):>6}{'≥' if gate.least else '≤'}{_short(gate.bar):<5}"
    spare = f"{percent(margin):>5}"
    title = max(0, room - len(figures) - len(spare) - 2)
    return Text.assemble((mark, style), f" {gate.title[:title]:<{title}}", (figures, ""), (spare, style))


def _bar(share: float, cells: int = _BAR) -> str:
    full = int(max(0.0, min(1.0, share)) * cells)
    return "━" * full + "╌" * (cells - full)


def _short(value: float | None) -> str:
    """At most six letters."""
    if value is None:
        return "–"
    for least, unit, letter in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.4g}{letter}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"

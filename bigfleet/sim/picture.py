"""A run as one picture: machines, Pods, actions, shortfalls and cost over the same time, as self-contained SVG."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap

from bigfleet.sim.report import SimulationReport
from bigfleet.sim.world.recorder import FleetSample

_WIDTH, _LEFT, _RIGHT = 960, 76, 24
_PANEL, _GAP, _FOOT = 150, 58, 44
_FIRST_LINE, _LINE, _HEAD_CHARACTERS = 30, 18, 130
# Above the first panel, for the names of faults.
_MARK_ROOM = 24
_PLOT = _WIDTH - _LEFT - _RIGHT
_TICKS = 4
_BARS = 80
_MOST_TIMES = 10
_TIME_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)

# From bound to free to broken: dark where a cluster has it, light where none does.
_STATES = {
    "Configured": "#1f5fa8",
    "Configuring": "#5a93d1",
    "Draining": "#e39b3b",
    "Idle": "#9fc3a2",
    "Creating": "#c9b3dd",
    "Deleting": "#d9d0c0",
    "Failed": "#c0392b",
    "Speculative": "#e8ebee",
}
_ACTIONS = {
    "Bootstrap": "#1f5fa8",
    "Provision": "#8e6bb8",
    "Preempt": "#c0392b",
    "Reclaim": "#e39b3b",
    "Delete": "#8a8f94",
}
_HELD, _BROKEN = "#3d7f4c", "#c0392b"
INK, SOFT, GRID = "#20262c", "#68727c", "#e3e6e9"


def draw(report: SimulationReport) -> str:
    """The SVG's text."""
    samples, end = report.samples, max(report.document["virtualSeconds"], 1.0)
    panels = [
        _stacked("machines", samples, end),
        _lines("Pods", samples, end, {"asked for": ("#20262c", _pods), "bound": ("#1f5fa8", _bound)}),
        _actions("actions", samples, end),
        _lines("shortfalls (needs unmet)", samples, end, {"standing": ("#c0392b", _short)}),
    ]
    if any(sample.usd_per_hour for sample in samples):
        panels.append(_lines("USD per hour", samples, end, {"price of what is held": ("#3d7f4c", _price)}))
    head = [(f'font-size="18" font-weight="600" fill="{INK}"', report.name)]
    head += [(f'font-size="12" fill="{SOFT}"', line) for line in wrap(report.description, _HEAD_CHARACTERS)]
    head += [(f'font-size="12" fill="{colour}"', line) for colour, line in _verdict(report)]
    body = [
        f'<text x="{_LEFT}" y="{_FIRST_LINE + _LINE * number}" {style}>{escape(text)}</text>'
        for number, (style, text) in enumerate(head)
    ]
    first = _FIRST_LINE + _LINE * len(head) + _GAP - _LINE + _MARK_ROOM * bool(report.marks)
    height = first + len(panels) * (_PANEL + _GAP) - _GAP + _FOOT
    body.append(_marks(report.marks, end, first, height - _FOOT))
    for index, panel in enumerate(panels):
        body.append(f'<g transform="translate(0,{first + index * (_PANEL + _GAP)})">{panel}</g>')
    body.append(_time_axis(end, height - _FOOT))
    return document(report.name, _WIDTH, height, "".join(body))


def _verdict(report: SimulationReport) -> Iterator[tuple[str, str]]:
    """(colour, line): how many promises hold, and each that does not."""
    broken = [check for check in report.checks if not check.holds]
    held = len(report.checks) - len(broken)
    word = "FAIL" if broken else "PASS"
    yield (
        (_BROKEN if broken else _HELD),
        f"{word}: {held} of {len(report.checks)} expectations hold · seed {report.document['seed']}",
    )
    for check in broken:
        yield _BROKEN, f"✗ {check.text}: {check.seen}"


def _marks(marks: Sequence[tuple[float, str]], end: float, top: int, bottom: int) -> str:
    """A line through all panels for each fault; its name stands above, on one of two rows."""
    drawn = []
    for number, (at, label) in enumerate(sorted(marks)):
        if at > end:
            continue
        x, row = _x(at, end), top - _GAP // 2 - _MARK_ROOM + 12 * (number % 2)
        anchor = "end" if at > 0.8 * end else "start"
        drawn.append(
            f'<line x1="{x}" x2="{x}" y1="{row + 3}" y2="{bottom}" stroke="{_BROKEN}" stroke-dasharray="2 3"/>'
            f'<text x="{x}" y="{row}" font-size="10" text-anchor="{anchor}" fill="{_BROKEN}">{escape(label)}</text>'
        )
    return "".join(drawn)


def document(title: str, width: int, height: int, body: str) -> str:
    """A whole SVG file on white, with a name for those who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, Helvetica, Arial, sans-serif" role="img" aria-label="{escape(title)}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{body}</svg>\n'
    )


def _pods(sample: FleetSample) -> float:
    return sample.pods


def _bound(sample: FleetSample) -> float:
    return sample.bound


def _short(sample: FleetSample) -> float:
    return sample.shortfalls


def _price(sample: FleetSample) -> float:
    return sample.usd_per_hour


def _stacked(title: str, samples: Sequence[FleetSample], end: float) -> str:
    """States on top of each other. Speculative ones are quota, not machines: they are left out."""
    shown = [state for state in _STATES if state != "Speculative" and any(s.states.get(state) for s in samples)]
    top = _nice(max((sum(s.states.get(state, 0) for state in shown) for s in samples), default=0))
    layers, floor = [], [0] * len(samples)
    for state in shown:
        ceiling = [low + s.states.get(state, 0) for low, s in zip(floor, samples, strict=True)]
        points = [f"{_x(s.at, end)},{_y(v, top)}" for s, v in zip(samples, ceiling, strict=True)]
        back = [f"{_x(s.at, end)},{_y(v, top)}" for s, v in zip(reversed(samples), reversed(floor), strict=True)]
        layers.append(f'<polygon points="{" ".join(points + back)}" fill="{_STATES[state]}"/>')
        floor = ceiling
    return _frame(title, top, {state: _STATES[state] for state in shown}) + "".join(layers)


def _lines(
    title: str,
    samples: Sequence[FleetSample],
    end: float,
    series: dict[str, tuple[str, Callable[[FleetSample], float]]],
) -> str:
    top = _nice(max((value(s) for s in samples for _, value in series.values()), default=0))
    drawn = []
    for colour, value in series.values():
        points = " ".join(f"{_x(s.at, end)},{_y(value(s), top)}" for s in samples)
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return _frame(title, top, {name: colour for name, (colour, _) in series.items()}) + "".join(drawn)


def _actions(title: str, samples: Sequence[FleetSample], end: float) -> str:
    """How many of each kind were taken in each stretch of time, as bars on top of each other."""
    wide = end / _BARS
    bars = [dict.fromkeys(_ACTIONS, 0) for _ in range(_BARS)]
    for before, after in pairwise(samples):
        index = min(_BARS - 1, int(before.at / wide))
        for kind in _ACTIONS:
            bars[index][kind] += after.actions[kind] - before.actions[kind]
    top = _nice(max((sum(bar.values()) for bar in bars), default=0))
    drawn = []
    for index, bar in enumerate(bars):
        floor = 0
        for kind, count in bar.items():
            if count:
                high, low = _y(floor + count, top), _y(floor, top)
                drawn.append(
                    f'<rect x="{_x(index * wide, end)}" y="{high}" width="{_PLOT / _BARS - 1.5:.1f}" '
                    f'height="{low - high:.1f}" fill="{_ACTIONS[kind]}"/>'
                )
                floor += count
    shown = {kind: colour for kind, colour in _ACTIONS.items() if any(bar[kind] for bar in bars)}
    return _frame(f"{title} per {_seconds(wide)}", top, shown) + "".join(drawn)


def _frame(title: str, top: float, legend: dict[str, str]) -> str:
    parts = [f'<text x="{_LEFT}" y="-10" font-size="13" font-weight="600" fill="{INK}">{escape(title)}</text>']
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="{GRID}"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4}" font-size="11" text-anchor="end" fill="{SOFT}">{_number(value)}</text>'
        )
    right = float(_WIDTH - _RIGHT)
    for name, colour in reversed(legend.items()):
        right -= 6.3 * len(name)
        parts.append(f'<text x="{right:.0f}" y="-10" font-size="11" fill="{SOFT}">{escape(name)}</text>')
        parts.append(f'<rect x="{right - 15:.0f}" y="-19" width="10" height="10" fill="{colour}"/>')
        right -= 28
    return "".join(parts)


def _time_axis(end: float, y: int) -> str:
    step = next((step for step in _TIME_STEPS if end / step <= _MOST_TIMES), end)
    return "".join(
        f'<text x="{_x(tick * step, end)}" y="{y + 20}" font-size="11" text-anchor="middle" fill="{SOFT}">'
        f"{_seconds(tick * step)}</text>"
        for tick in range(int(end / step) + 1)
    )


def _x(at: float, end: float) -> float:
    return round(_LEFT + _PLOT * at / end, 1)


def _y(value: float, top: float) -> float:
    return round(_PANEL * (1 - value / top), 1)


def _nice(value: float) -> float:
    """A round number at or above `value`, at least 4, that four ticks divide well."""
    step = 1.0
    while True:
        for factor in (4, 8, 12, 20, 40):
            if factor * step >= value:
                return factor * step
        step *= 10


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"

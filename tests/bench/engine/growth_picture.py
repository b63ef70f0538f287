"""The growth of a cycle's cost as one picture: a panel for what grows, a line for each case, logarithmic axes."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bigfleet.sim.picture import GRID, INK, SOFT, document

_PANEL_WIDTH, _PANEL_HEIGHT = 215, 250
# A line says its name in the room to its right.
_LEFT, _TOP, _NAMES, _FOOT = 62, 108, 100, 44
_COLOURS = {"steady": "#3d7f4c", "one roll-up": "#8e6bb8", "2 % churn": "#1f5fa8", "cold": "#c0392b"}
_TITLE = "Milliseconds of CPU for one decision cycle"
# Labels of lines that end close to each other are moved apart by this much.
_LABEL_STEP = 13.0


def draw(axes: Mapping[str, Sequence[Mapping[str, Any]]], exponents: Mapping[str, Mapping[str, float]]) -> str:
    """The SVG's text."""
    costs = [ms for points in axes.values() for point in points for ms in point["ms"].values()]
    low, high = _decades(costs)
    width = _LEFT + len(axes) * (_PANEL_WIDTH + _NAMES)
    body = [
        f'<text x="{_LEFT}" y="30" font-size="18" font-weight="600" fill="{INK}">{_TITLE}</text>',
        f'<text x="{_LEFT}" y="50" font-size="12" fill="{SOFT}">One thing grows in each panel, the others stay. '
        "A line's number is its growth: 1 is proportional, 0 is flat.</text>",
    ]
    for index, (axis, points) in enumerate(axes.items()):
        panel = _panel(axis, points, exponents[axis], (low, high), first=index == 0)
        body.append(f'<g transform="translate({_LEFT + index * (_PANEL_WIDTH + _NAMES)},{_TOP})">{panel}</g>')
    return document(_TITLE, width, _TOP + _PANEL_HEIGHT + _FOOT, "".join(body))


def _panel(
    axis: str,
    points: Sequence[Mapping[str, Any]],
    exponents: Mapping[str, float],
    decades: tuple[int, int],
    first: bool,
) -> str:
    numbers = [point["n"] for point in points]
    left, right = math.log10(min(numbers)), math.log10(max(numbers))

    def x(number: float) -> float:
        return round(_PANEL_WIDTH * (math.log10(number) - left) / (right - left), 1)

    def y(ms: float) -> float:
        return round(_PANEL_HEIGHT * (decades[1] - math.log10(ms)) / (decades[1] - decades[0]), 1)

    parts = [
        f'<text x="0" y="-26" font-size="13" font-weight="600" fill="{INK}">{escape(axis)}</text>',
        _text(0, -11, _fixed(axis, points[0]), "start"),
    ]
    for decade in range(decades[0], decades[1] + 1):
        height = y(10.0**decade)
        parts.append(f'<line x1="0" x2="{_PANEL_WIDTH}" y1="{height}" y2="{height}" stroke="{GRID}"/>')
        if first:
            label = f"{10.0**decade:g} ms"
            parts.append(_text(-8, height + 4, label, "end"))
    parts += [_text(x(number), _PANEL_HEIGHT + 20, _short(number), "middle") for number in numbers]
    ends: dict[str, float] = {}
    for case in points[0]["ms"]:
        colour = _COLOURS[case]
        line = " ".join(f"{x(point['n'])},{y(point['ms'][case])}" for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        parts += [
            f'<circle cx="{x(point["n"])}" cy="{y(point["ms"][case])}" r="2.6" fill="{colour}"/>' for point in points
        ]
        ends[case] = y(points[-1]["ms"][case]) + 4
    for case, height in _apart(ends).items():
        # A zero has no sign.
        parts.append(
            _text(_PANEL_WIDTH + 8, height, f"{case} {round(exponents[case], 1) + 0.0:.1f}", "start", _COLOURS[case])
        )
    return "".join(parts)


def _fixed(axis: str, point: Mapping[str, Any]) -> str:
    """What stays: `50 clusters, 5K need rows`."""
    counts = {"machines": point["machines"], "clusters": point["clusters"], "need rows": point["need_rows"]}
    return ", ".join(f"{_short(count)} {what}" for what, count in counts.items() if what != axis)


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """The same heights, from the top down, none closer to the one above than a line of text."""
    placed: dict[str, float] = {}
    last = -math.inf
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        last = placed[name] = max(height, last + _LABEL_STEP)
    return placed


def _text(x: float, y: float, text: str, anchor: str, colour: str = SOFT) -> str:
    return f'<text x="{x}" y="{y:.1f}" font-size="11" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _decades(costs: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that enclose all."""
    return math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))


def _short(number: float) -> str:
    """`300K`, `1M`."""
    for size, letter in ((1_000_000, "M"), (1_000, "K")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"

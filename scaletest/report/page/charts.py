"""Small pictures as inline SVG: a gate's way through the soak, and how long each step of a run took."""

from collections.abc import Sequence
from html import escape

from scaletest.model.counting import counted
from scaletest.model.documents.durations import format_duration
from scaletest.report.margins import margin_of

_WIDTH, _HEIGHT, _PAD = 220, 40, 3


def gate_curve(points: Sequence[tuple[float, float]], bar: float, least: bool, title: str) -> str:
    """Values over time with the bar dashed across; empty without values."""
    if not points:
        return ""
    first, last = points[0][0], points[-1][0]
    low, high = _range([value for _, value in points], bar, least)

    def x(at: float) -> float:
        return _PAD + (at - first) / ((last - first) or 1) * (_WIDTH - 2 * _PAD)

    def y(value: float) -> float:
        return _HEIGHT - _PAD - (value - low) / ((high - low) or 1) * (_HEIGHT - 2 * _PAD)

    drawn = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
    missed = "".join(
        f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="2" class="missed"/>'
        for at, value in points
        if margin_of(value, bar, least) < 0
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img">'
        f"<title>{escape(title)}: {counted(len(points), 'sample')}, {min(v for _, v in points):.4g} to "
        f"{max(v for _, v in points):.4g}</title>"
        f'<line x1="0" x2="{_WIDTH}" y1="{y(bar):.1f}" y2="{y(bar):.1f}" class="bar"/>'
        f'<polyline points="{drawn}" class="curve"/>{missed}</svg>'
    )


def _range(values: Sequence[float], bar: float, least: bool) -> tuple[float, float]:
    """The bar is always in view. A latency is seen against zero, a floor from nearby."""
    low, high = min(*values, bar), max(*values, bar)
    if not least:
        low = min(0.0, low)
    room = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
    return low - (room if least else 0.0), high + room


def phase_strip(seconds: dict[str, float]) -> str:
    """The steps side by side, each as wide as it was long."""
    total = sum(seconds.values()) or 1.0
    width, height, at = 900.0, 34.0, 0.0
    parts = []
    for number, (step, took) in enumerate(seconds.items()):
        wide = took / total * width
        label = f'<text x="{at + 5:.1f}" y="21">{escape(step)} {format_duration(took)}</text>' if wide > 80 else ""
        parts.append(
            f'<g class="step{number % 2}"><title>{escape(step)}: {took:.1f} s</title>'
            f'<rect x="{at:.1f}" y="0" width="{max(1.0, wide):.1f}" height="{height}"/>{label}</g>'
        )
        at += wide
    return f'<svg class="strip" viewBox="0 0 {width:g} {height:g}" role="img">{"".join(parts)}</svg>'

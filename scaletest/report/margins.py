"""How far a gate's value is from its bar, and the mark of its verdict."""

MARKS = {"pass": "✓", "fail": "✗", "no-data": "?", "saturated": "!", "skipped": "–"}


def margin_of(value: float, bar: float, least: bool) -> float:
    """Share of the bar that is left: 1 is all of it, 0 is on the bar, below 0 is beyond it."""
    room = value - bar if least else bar - value
    if bar:
        return room / abs(bar)
    return 1.0 if room == 0 else -1.0 if room < 0 else 1.0


def percent(margin: float | None) -> str:
    """`83%`; empty if there is none to show."""
    if margin is None:
        return ""
    return f"{max(-9.99, margin) * 100:.0f}%"

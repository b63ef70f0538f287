"""Durations as people write them: `90s`, `3m`, `1h30m`."""

import re

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
# Longer than any soak, short enough for every clock.
MOST_SECONDS = 30 * 24 * 3600
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of a duration in Go's spelling; a bare number is refused, because its unit would be a guess."""
    parts = _PART.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is not a duration such as 90s, 3m or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > MOST_SECONDS:
        raise ValueError(f"{text!r} is longer than 30 days")
    return seconds


def format_duration(seconds: float) -> str:
    """`1h02m03s`, `3m05s` or `12s`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m{left:02d}s"
    return f"{minutes}m{left:02d}s" if minutes else f"{left}s"

"""Tables and ages, for people."""

import time
from collections.abc import Sequence

from scaletest.model.durations import format_duration


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned lines; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def age(since: float) -> str:
    """How long ago, as `3m10s`."""
    return format_duration(max(0.0, time.time() - since))

"""Tables, ages, paths and commands, for people."""

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scaletest.model.documents.durations import format_duration


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned lines; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def age(since: float) -> str:
    """How long ago, as `3m10s`."""
    return format_duration(max(0.0, time.time() - since))


def from_here(path: Path) -> str:
    """A path as the user would type it in the current directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def command(name: str, otherwise: str = "") -> str:
    """A command that can be pasted: its name where the PATH has it, else where it lies beside this Python."""
    beside = Path(sys.executable).parent / name
    if shutil.which(name):
        return name
    return from_here(beside) if beside.exists() else otherwise or name

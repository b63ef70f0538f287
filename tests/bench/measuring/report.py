"""One JSON line for each benchmark: what was measured, against which bar, on what machine."""

import json
import os
import sys
from typing import Any

_missed: list[str] = []


def emit(bench: str, **figures: Any) -> None:
    """Say it, and remember the bars that were missed."""
    for name, figure in figures.items():
        if isinstance(figure, dict) and figure.get("met") is False:
            _missed.append(f"{bench}: {name} is {figure['value']:g}, the bar is {figure['bar']:g}")
    machine = {"cores": os.cpu_count(), "load1": round(os.getloadavg()[0], 2)}
    sys.stdout.write(json.dumps({"bench": bench, **figures, "machine": machine}, allow_nan=False) + "\n")
    sys.stdout.flush()


def verdict() -> int:
    """The exit code of a benchmark that came to its end: 1 if it missed a bar, and which one goes to stderr."""
    for sentence in _missed:
        sys.stderr.write(f"missed: {sentence}\n")
    return int(bool(_missed))


def against(value: float, bar: float) -> dict[str, Any]:
    """A figure beside its bar; a ratio below 1 is better than asked for."""
    return {"value": round(value, 3), "bar": bar, "ratio": round(value / bar, 3), "met": value <= bar}


def beside(ours: float, peers: float) -> dict[str, Any]:
    """A figure of ours beside the peer's of the same run; a ratio below 1 is better than the peer."""
    return {"ours": round(ours, 3), "peer": round(peers, 3), "ratio": round(ours / peers, 3)}

"""One JSON line for each benchmark: what was measured, against which bar, on what machine."""

import json
import os
import sys
from typing import Any


def emit(bench: str, **figures: Any) -> None:
    machine = {"cores": os.cpu_count(), "load1": round(os.getloadavg()[0], 2)}
    sys.stdout.write(json.dumps({"bench": bench, **figures, "machine": machine}, allow_nan=False) + "\n")
    sys.stdout.flush()


def against(value: float, bar: float) -> dict[str, Any]:
    """A figure beside its bar; a ratio below 1 is better than asked for."""
    return {"value": round(value, 3), "bar": bar, "ratio": round(value / bar, 3), "met": value <= bar}


def beside(ours: float, peers: float) -> dict[str, Any]:
    """A figure of ours beside the peer's of the same run; a ratio below 1 is better than the peer."""
    return {"ours": round(ours, 3), "peer": round(peers, 3), "ratio": round(ours / peers, 3)}

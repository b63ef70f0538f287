"""Measures one shape, in a fresh process of its own: times of every case, memory per machine."""

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bigfleet.process import memory
from tests.bench.engine.cases import CASES
from tests.bench.engine.fleets import Shape, SyntheticFleet
from tests.bench.engine.stand import Stand
from tests.bench.measuring.calibration import kernel_ms

_ROUNDS = 3
# Runs once before anything is measured: code is loaded, caches of compiled kernels are read.
_WARM_UP = Shape("warm-up", clusters=2, machines=600, rows=30, plain_machines=20)


def measure_apart(shape: Shape, cases: Sequence[str], quick: bool = False) -> dict[str, Any]:
    """All figures of one shape, from a process that does nothing else. `quick` disturbs the fleet once in a round."""
    words = json.dumps([asdict(shape), list(cases), quick])
    result = subprocess.run([sys.executable, "-m", __name__, words], stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures


def build_kernels() -> None:
    """Without them the engine is plain Python, which is not what is to be measured."""
    subprocess.run([sys.executable, "-m", "bigfleet.engine.kernels", "build"], stdout=sys.stderr, check=True)


def measure(shape: Shape, cases: Sequence[str], quick: bool) -> dict[str, Any]:
    """All figures of one shape, in this process: whatever else it has in memory counts too."""
    _say(shape, "warm-up")
    warm = Stand(SyntheticFleet(_WARM_UP))
    warm.load()
    warm.settle()
    for case in CASES.values():
        case(warm, 0)
        warm.cycle()
        warm.recover()
    # A collection comes before each cycle: it need not look at all that was imported, a tenth of a second each time.
    gc.collect()
    gc.freeze()
    try:
        return _measure(shape, cases, quick)
    finally:
        gc.unfreeze()


def _measure(shape: Shape, cases: Sequence[str], quick: bool) -> dict[str, Any]:
    before = _resident_bytes()
    stand = Stand(SyntheticFleet(shape))
    began = time.perf_counter()
    _say(shape, "loading")
    stand.load()
    load_seconds = time.perf_counter() - began
    _say(shape, f"settling (loaded in {load_seconds:.1f} s)")
    cycles = stand.settle()
    with stand.notes_aside():
        grown = _resident_bytes() - before
    figures: dict[str, Any] = {
        "shape": shape.name,
        "machines": stand.machines,
        "clusters": shape.clusters,
        "need_rows": shape.need_rows,
        "bound": len(stand.bound),
        "settle_cycles": cycles,
        "load_seconds": round(load_seconds, 2),
        "bytes_per_machine": round(grown / stand.machines, 1),
        "cases": {},
    }
    for name in cases:
        _say(shape, name)
        figures["cases"][name] = _measure_case(stand, name, quick)
    return figures


def _measure_case(stand: Stand, name: str, quick: bool) -> dict[str, Any]:
    rounds, ingest, emit, actions = [], [], [], []
    disturbs = name != "steady"
    turn = 0
    for _ in range(_ROUNDS):
        times, cpu_times = [], []
        kernel = [kernel_ms()]
        for _ in range(1 if quick and disturbs else _repetitions(stand.machines, disturbs)):
            turn += 1
            stand.ingest_seconds = 0.0
            CASES[name](stand, turn)
            ingest.append(stand.ingest_seconds)
            decisions, seconds, cpu_seconds = stand.cycle()
            times.append(seconds)
            cpu_times.append(cpu_seconds)
            began = time.perf_counter()
            decided = list(decisions.actions)
            emit.append(time.perf_counter() - began)
            actions.append(stand.act(decided))
            if disturbs:
                stand.recover()
            elif decided:
                raise RuntimeError(f"{stand.synthetic.shape.name}: {len(decided)} actions at steady demand")
        kernel.append(kernel_ms())
        rounds.append(
            {
                "ms": round(1000 * statistics.median(times), 4),
                "cpu_ms": round(1000 * statistics.median(cpu_times), 4),
                "kernel_ms": round(statistics.mean(kernel), 3),
            }
        )
    return {
        "rounds": rounds,
        "repetitions": turn // _ROUNDS,
        "actions": round(statistics.median(actions)),
        "ingest_ms": round(1000 * statistics.median(ingest), 3),
        "action_objects_ms": round(1000 * statistics.median(emit), 3),
    }


def _repetitions(machines: int, disturbs: bool) -> int:
    """In each round; the largest fleets take seconds to disturb and to settle again."""
    if machines > 1_000_000:
        return 1 if disturbs else 5
    if machines > 100_000:
        return 3 if disturbs else 9
    return 5 if disturbs else 15


def _resident_bytes() -> int:
    """What this process has in memory after giving back what it does not use."""
    memory.give_back()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _say(shape: Shape, what: str) -> None:
    sys.stderr.write(f"{shape.name}: {what}\n")


if __name__ == "__main__":
    _shape, _cases, _quick = json.loads(sys.argv[1])
    print(json.dumps(measure(Shape(**_shape), _cases, _quick)))

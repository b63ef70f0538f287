"""`python -m tests.bench [NAME…]`: runs the benchmarks, one after the other, each in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.bench.measuring.running import INTERRUPTED

# Each with what it is told when all are run.
BENCHES: dict[str, list[str]] = {
    "start": [],
    "footprint": [],
    "peer": [],
    "demand": [],
    "watch": [],
    "rollup": [],
    "failover": [],
    "assignment": [],
    "sessions": [],
    "reconcile": [],
    "ingest": [],
    "cycle": [],
    "hot": ["all"],
}
# Draws docs/engine-growth.svg anew: only when asked for.
ON_DEMAND: dict[str, list[str]] = {"growth": []}


def main(names: list[str]) -> int:
    known = {**BENCHES, **ON_DEMAND}
    if unknown := set(names) - known.keys():
        sys.stderr.write(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}\n")
        return 2
    codes = [_run(name, known[name]) for name in names or BENCHES]
    return max(codes, key=abs)


def _module(name: str) -> str:
    """Each bench lies in the folder of the room that it measures."""
    home = Path(__file__).parent
    (path,) = home.rglob(f"{name}.py")
    return ".".join(("tests", "bench", *path.relative_to(home).with_suffix("").parts))


def _run(name: str, arguments: list[str]) -> int:
    """Its exit code. A signal is the benchmark's to answer: it has processes to end, and we wait for that."""
    with subprocess.Popen([sys.executable, "-m", _module(name), *arguments]) as bench:
        signal.signal(signal.SIGTERM, lambda *_: bench.terminate())
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal tells the benchmark too
        code = bench.wait()
    if code == INTERRUPTED:
        sys.exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.bench [NAME…]`: runs the benchmarks, one after the other, each in a process of its own."""

import subprocess
import sys

# Each with what it is told when all are run.
BENCHES: dict[str, list[str]] = {
    "start": [],
    "footprint": [],
    "peer": [],
    "demand": [],
    "failover": [],
    "ingest": [],
    "hot": ["all"],
}
# Draws docs/engine-growth.svg anew: only when asked for.
ON_DEMAND: dict[str, list[str]] = {"growth": []}


def main(names: list[str]) -> int:
    known = {**BENCHES, **ON_DEMAND}
    if unknown := set(names) - known.keys():
        sys.stderr.write(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}\n")
        return 2
    codes = [
        subprocess.run([sys.executable, "-m", f"tests.bench.{name}", *known[name]]).returncode
        for name in names or BENCHES
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

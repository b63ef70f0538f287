"""`python -m tests.bench [NAME…]`: runs the benchmarks, one after the other, each in a process of its own."""

import subprocess
import sys

BENCHES = ("start", "footprint", "peer", "demand", "failover")


def main(names: list[str]) -> int:
    if unknown := set(names) - set(BENCHES):
        sys.stderr.write(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}\n")
        return 2
    codes = [subprocess.run([sys.executable, "-m", f"tests.bench.{name}"]).returncode for name in names or BENCHES]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

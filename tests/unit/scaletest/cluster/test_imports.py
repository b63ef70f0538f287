"""What a KWOK cluster's processes import is memory that every cluster of a run takes, so nothing comes in unnoticed."""

import subprocess
import sys

import pytest

# Nobody in a pod builds tools, judges runs, decides or simulates.
FOREIGN = {
    *("bigfleet.engine", "bigfleet.shard", "bigfleet.sim.world.cluster", "bigfleet.sim.world.simulation"),
    *("scaletest.cli", "scaletest.host", "scaletest.report", "scaletest.run", "scaletest.toolchain"),
    *("cryptography", "hypothesis", "kubernetes", "numba", "rich", "typer"),
}


def imported_by(module: str) -> set[str]:
    script = (
        "import sys\n"
        "from bigfleet.process.dispatch import keep_out\n"
        "keep_out('rich')\n"
        f"import {module}\n"
        "print(*(name for name, found in sys.modules.items() if found))\n"
    )
    return set(subprocess.check_output([sys.executable, "-c", script], text=True).split())


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("scaletest.cluster.workload", FOREIGN),
        (
            "scaletest.cluster.control_plane.supervisor",
            FOREIGN | {"google", "grpc", "numpy", "pydantic", "scaletest.model"},
        ),
    ],
)
def test_a_process_imports_nothing_that_it_does_not_need(module: str, needless: set[str]) -> None:
    assert not imported_by(module) & needless

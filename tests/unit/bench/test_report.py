"""A benchmark that misses its bar says so, and does not end as if nothing were wrong."""

import subprocess
import sys

from scaletest.project import PROJECT


def ended(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True)


def measuring(seconds: float) -> str:
    return f"""
from tests.bench.measuring.report import against, emit
from tests.bench.measuring.running import run

async def measure():
    emit("failover", trials=1, maximum_seconds=against({seconds}, 2.0))

run(measure)
"""


def test_a_missed_bar_is_an_exit_code_and_a_sentence() -> None:
    missed = ended(measuring(2.5))
    assert missed.returncode == 1
    assert "missed: failover: maximum_seconds is 2.5, the bar is 2" in missed.stderr
    assert '"met": false' in missed.stdout


def test_a_bar_that_is_met_is_no_trouble() -> None:
    met = ended(measuring(1.5))
    assert (met.returncode, met.stderr) == (0, "")

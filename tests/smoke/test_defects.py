"""A broken BigFleet must fail: each seeded defect ends in the right verdict, gate, exit code and sentence.

One of them in every `make test`; the others with SCALETEST_LONG=1.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.smoke.runs import FinishedRun, LiveRun, run, shared_machine


async def silence_load_drivers(live: LiveRun) -> None:
    """Stop them as soon as they exist, so that the demand is never asked for."""
    await live.reached("install")
    stopped: set[int] = set()
    while len(stopped) < 2:
        for pid in set(live.processes("load-driver")) - stopped:
            os.kill(pid, signal.SIGSTOP)
            stopped.add(pid)
        await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Defect:
    """What is wrong, and how the run has to end."""

    name: str
    exit_code: int
    sentence: str
    # The gate that must fail; empty if the run never comes to judge them.
    gate: str = ""
    flags: tuple[str, ...] = ()
    meddle: Callable[[LiveRun], Awaitable[None]] | None = None
    long: bool = True


def provider_flags(*flags: str) -> tuple[str, ...]:
    return ("--set", f"provider.extraArgs=[{', '.join(flags)}]")


DEFECTS = [
    Defect(
        "a fifth of the bootstraps fails",
        1,
        "Bootstraps of the last two minutes failed",
        "bootstrapSuccessRatio",
        (*provider_flags("--faults-configure-failure-ratio=0.2"), "--duration", "2m"),
        long=False,
    ),
    Defect(
        "machines take too long to configure",
        1,
        "mostly the provider and the node",
        "shardConfigurePhaseP99Seconds",
        (
            *provider_flags("--latencies-configure-median-seconds=18", "--latencies-configure-p99-seconds=22"),
            *("--duration", "2m"),
        ),
    ),
    Defect("the demand is never asked for", 3, "demand is not built", meddle=silence_load_drivers),
]


@pytest.fixture(scope="module", params=DEFECTS, ids=lambda defect: defect.name)
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Defect, FinishedRun]:
    defect: Defect = request.param
    if defect.long and not os.environ.get("SCALETEST_LONG"):
        pytest.skip("long: set SCALETEST_LONG=1")
    directory = tmp_path_factory.mktemp("defect")
    flags = ("--profile", "smoke", "--substrate", str(shared_machine(directory)), *defect.flags)
    return defect, asyncio.run(run(directory / "results", *flags, meddle=defect.meddle))


def test_it_ends_with_the_right_exit_code_and_sentence(ended: tuple[Defect, FinishedRun]) -> None:
    defect, finished = ended
    assert finished.exit_code == defect.exit_code, finished.screen
    reasons = "; ".join(failure["reason"] for failure in finished.summary["failures"])
    assert defect.sentence in reasons


def test_the_gate_of_that_hop_fails(ended: tuple[Defect, FinishedRun]) -> None:
    defect, finished = ended
    verdicts = {gate["key"]: gate["verdict"] for gate in finished.summary["gates"]}
    assert (verdicts.get(defect.gate) == "fail") if defect.gate else not verdicts


def test_the_evidence_is_kept_and_nothing_is_left(ended: tuple[Defect, FinishedRun]) -> None:
    _, finished = ended
    assert finished.summary["snapshot"]["samples"] > 0
    assert (finished.output / "logs").is_dir()
    assert finished.leftovers() == []

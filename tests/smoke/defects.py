"""Ways in which BigFleet, or what it stands on, may be broken, and how a run has to end then.

Each is seeded where such a thing really goes wrong: in the provider's own faults, in a process that hangs, in a
mistake in the source. Nothing here touches the judge.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scaletest.judge.gates import Verdict
from tests.mutants.mutant import Mistake
from tests.smoke.runs import LiveRun

Meddle = Callable[[LiveRun], Awaitable[None]]


@dataclass(frozen=True)
class Defect:
    """What is wrong, and how the run has to end."""

    name: str
    exit_code: int
    # Part of one of the reasons that the run gives.
    sentence: str
    # The gate that must not pass; empty if the run never comes to judge them.
    gate: str = ""
    verdict: Verdict = "fail"
    # What the gate must have been judged by, at least.
    observations: int = 0
    flags: tuple[str, ...] = ()
    meddle: Meddle | None = None
    # In the source of BigFleet.
    mistakes: tuple[Mistake, ...] = ()
    long: bool = True


def _provider(*flags: str) -> tuple[str, ...]:
    return ("--set", f"provider.extraArgs=[{', '.join(flags)}]")


async def _silence_load_drivers(live: LiveRun) -> None:
    """Stop them as soon as they exist, so that the demand is never asked for."""
    await live.reached("install")
    stopped: set[int] = set()
    while len(stopped) < 2:
        for pid in set(live.processes("load-driver")) - stopped:
            os.kill(pid, signal.SIGSTOP)
            stopped.add(pid)
        await asyncio.sleep(0.05)


_GREED = "greedy"


async def _turn_greedy(live: LiveRun) -> None:
    """The mistake is there from the start, but bites in the soak only: before, the run would not become steady."""
    await live.reached("soak")
    (live.checkout / "bigfleet" / "engine" / _GREED).touch()


_TAKES_WHAT_SERVES = Mistake(
    "engine/shrinking.py",
    "        before, self._since = self._since, {}\n",
    f"""\
        before, self._since = self._since, {{}}
        from pathlib import Path

        if Path(__file__).with_name({_GREED!r}).exists():
            for cluster, known in credits.by_cluster.items():
                if known.configured:
                    first = int(fleet.index.starts[fleet.slabs[0, cluster]])
                    machines.append(fleet.index.rows[first : first + 1])
                    clusters.append(np.full(1, cluster, np.int32))
""",
)
_PUBLISHES_LATE = Mistake(
    "operator/nodestates.py",
    "                phase = await self._persist(machine, lambda: self._apply(machine, frame.update))\n",
    """\
                await asyncio.sleep(6)
                phase = await self._persist(machine, lambda: self._apply(machine, frame.update))
""",
)
_NAMES_IT_OTHERWISE = Mistake(
    "operator/metrics.py", "bigfleet_operator_acknowledge_duration_seconds", "bigfleet_operator_ack_seconds"
)
_BUCKETS_END_TOO_SOON = Mistake(
    "shard/metrics.py", "_PHASE_BUCKETS = exponential_buckets(0.01, _FINE, 36)", "_PHASE_BUCKETS = (0.1, 0.2, 0.5)"
)

DEFECTS = [
    Defect(
        "a fifth of the bootstraps fails",
        1,
        "Bootstraps of the last two minutes failed",
        "bootstrapSuccessRatio",
        observations=30,
        flags=(*_provider("--faults-configure-failure-ratio=0.2"), "--duration", "2m"),
        long=False,
    ),
    Defect(
        "machines take too long to configure",
        1,
        "mostly the provider and the node",
        "shardConfigurePhaseP99Seconds",
        flags=(
            *_provider("--latencies-configure-median-seconds=18", "--latencies-configure-p99-seconds=22"),
            *("--duration", "2m"),
        ),
    ),
    Defect(
        "the operator publishes machines late",
        1,
        "UpcomingNodes are published",
        "operatorNodeStateUpdateP99Seconds",
        mistakes=(_PUBLISHES_LATE,),
    ),
    Defect(
        "the engine reclaims at steady demand",
        1,
        "reclaimActionsDuringSoak: ",
        "reclaimActionsDuringSoak",
        mistakes=(_TAKES_WHAT_SERVES,),
        meddle=_turn_greedy,
    ),
    Defect("the demand is never asked for", 3, "demand is not built", meddle=_silence_load_drivers),
    Defect(
        "a metric is missing",
        5,
        "operatorAckP99Seconds is no-data: there is no value for it",
        "operatorAckP99Seconds",
        "no-data",
        mistakes=(_NAMES_IT_OTHERWISE,),
    ),
    Defect(
        "a histogram is saturated",
        5,
        "shardConfigurePhaseP99Seconds is saturated: beyond the histogram's last bucket (0.5)",
        "shardConfigurePhaseP99Seconds",
        "saturated",
        observations=10,
        mistakes=(_BUCKETS_END_TOO_SOON,),
    ),
]

"""The verdict's figures: every gate, and whether the harness kept up. The same for a live run and for old evidence."""

from collections.abc import Iterator
from dataclasses import dataclass

from scaletest.judge import outcome as codes
from scaletest.judge.gates import GateRecord, Reading, gates_for, judge, reclaim_gate, restart_gate
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.readings import read_gate, read_reclaims
from scaletest.judge.selfcheck import CheckRecord, ScrapeIntervals, Strain, check_harness, shortage
from scaletest.model.plan import Plan


@dataclass(frozen=True)
class SoakWindow:
    """When the soak was, in unix seconds."""

    start: float
    end: float


@dataclass(frozen=True)
class Soaked:
    """A soak that was held: when, and what was seen that no Prometheus keeps."""

    window: SoakWindow
    restarts: Reading
    strain: Strain
    # Why the soak was ended before its time; empty if it was not.
    cut_short: str = ""


@dataclass(frozen=True)
class Judgement:
    """All that a soak was judged by."""

    gates: list[GateRecord]
    checks: list[CheckRecord]
    cut_short: str = ""

    def failures(self) -> Iterator[tuple[int, str]]:
        """Every reason not to pass, with its exit code."""
        if short := shortage(self.checks):
            yield codes.OVERLOADED, short
        if self.cut_short:
            yield codes.GATE_FAILED, self.cut_short
        for check in self.checks:
            if check.verdict == "unmeasured":
                yield codes.UNMEASURED, f"self-check: {check.reason}"
        for gate in self.gates:
            if gate.verdict == "fail":
                yield codes.GATE_FAILED, f"{gate.key}: {gate.reason}"
            elif gate.verdict in ("no-data", "saturated"):
                yield codes.UNMEASURED, f"{gate.key} is {gate.verdict}: {gate.reason}"


async def judge_soak(plan: Plan, prometheus: Prometheus, soaked: Soaked, intervals: ScrapeIntervals) -> Judgement:
    """Read and judge everything over the soak."""
    seconds, least, window = plan.window_seconds, plan.profile.slo.min_observations, soaked.window
    records: list[GateRecord] = []
    for gate in gates_for(plan):
        reading = await read_gate(prometheus, gate, seconds, window.start, window.end)
        records.append(judge(gate, reading, seconds, least))
    counted_from = window.start + plan.reclaims_count_after_seconds
    reclaims = await read_reclaims(prometheus, counted_from, window.end)
    records.append(judge(reclaim_gate(plan), reclaims, seconds, least))
    records.append(judge(restart_gate(plan), soaked.restarts, seconds, least))
    checks = await check_harness(
        prometheus, plan.substrate.self_check, window.start, window.end, intervals, soaked.strain
    )
    return Judgement(records, checks, soaked.cut_short)

"""The verdict's figures: every gate, whether the load came, how strained the machine was. The same for old evidence."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scaletest.exit_codes import ExitCode
from scaletest.judge.gates.gate import GateRecord, Reading, judge
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.gates.measures import Noted
from scaletest.judge.gates.windows import SoakWindow
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.readings.offences import offence_of
from scaletest.judge.readings.readings import read_gate
from scaletest.judge.selfcheck.checks import CheckRecord, load_that_did_not_come
from scaletest.judge.selfcheck.delivery import check_delivery
from scaletest.judge.selfcheck.strain import ScrapeIntervals, Seen, Strained, check_strain, strained_by
from scaletest.model.plan import Plan


@dataclass(frozen=True)
class Soaked:
    """A soak that was held: when, and what was seen that no Prometheus keeps."""

    window: SoakWindow
    restarts: Reading
    seen: Seen
    # Why the soak was ended before its time; empty if it was not.
    cut_short: str = ""
    # By rule of the provider's ledger, the first machine that it was broken for.
    offences: Mapping[str, str] = field(default_factory=dict)


class Failure(NamedTuple):
    """A reason not to pass."""

    exit_code: ExitCode
    sentence: str
    # No strain can cause it.
    certain: bool = False


@dataclass(frozen=True)
class Judgement:
    """All that a soak was judged by."""

    gates: list[GateRecord]
    checks: list[CheckRecord]
    cut_short: str = ""
    strained: Strained = field(default_factory=Strained)

    def failures(self) -> Iterator[Failure]:
        """Every reason not to pass, with its exit code."""
        if missing := load_that_did_not_come(self.checks):
            yield Failure(ExitCode.VOID, missing)
        if self.cut_short:
            yield Failure(ExitCode.VOID if self.strained else ExitCode.GATE_FAILED, self.cut_short)
        for check in self.checks:
            if check.verdict == "unmeasured":
                yield Failure(ExitCode.UNMEASURED, f"self-check, {check.title}: {check.reason}")
        for gate in self.gates:
            if gate.verdict == "fail":
                yield self._failed(gate)
            elif gate.verdict in ("no-data", "saturated"):
                yield Failure(ExitCode.UNMEASURED, f"{gate.key} is {gate.verdict}: {gate.reason}")

    def _failed(self, gate: GateRecord) -> Failure:
        sentence = f"{gate.key}: {gate.reason} ({gate.component})"
        if gate.strainable and self.strained.at(gate.at):
            return Failure(ExitCode.VOID, f"{sentence}; but the machine was strained then: {self.strained.reasons[0]}")
        return Failure(ExitCode.GATE_FAILED, sentence, certain=not gate.strainable)

    def outcome(self) -> RunOutcome:
        ended = RunOutcome()
        for failure in self.failures():
            ended.add(failure.exit_code, failure.sentence, certain=failure.certain)
        return ended


async def judge_soak(
    plan: Plan,
    prometheus: Prometheus,
    soaked: Soaked,
    intervals: ScrapeIntervals,
    known: Collection[str] | None = None,
) -> Judgement:
    """Read and judge everything over the soak.

    `known`, of old evidence: the gates and checks that were judged then. A newer one without data is skipped.
    """
    least, window = plan.profile.slo.min_observations, soaked.window
    records: list[GateRecord] = []
    for gate in gates_for(plan):
        seconds = sum(stretch.seconds for stretch in window.stretches(gate.window))
        if isinstance(gate.measure, Noted):
            reading = soaked.restarts
        else:
            reading = await read_gate(prometheus, gate, plan, window)
        if gate.rules and not reading.detail:
            reading = replace(reading, detail=offence_of(gate.rules, soaked.offences))
        records.append(judge(gate, reading, min(seconds, plan.window_seconds), least))
    checks = [
        *await check_delivery(prometheus, plan, window),
        *await check_strain(prometheus, plan.substrate.self_check, window, intervals, soaked.seen),
    ]
    if known is not None:
        records = [_aged(record, known) for record in records]
        checks = [
            replace(check, verdict="skipped", reason="the evidence is older than this check")
            if check.verdict == "unmeasured" and check.key not in known
            else check
            for check in checks
        ]
    return Judgement(records, checks, soaked.cut_short, strained_by(checks, soaked.seen))


def _aged(record: GateRecord, known: Collection[str]) -> GateRecord:
    if record.verdict == "no-data" and record.key not in known:
        return replace(record, verdict="skipped", reason="the evidence is older than this gate")
    return record

"""What a run learns about itself on the way, and the summary that is made of it."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from scaletest.judge.gates.gate import UNMEASURED_VALUE
from scaletest.judge.hops import HopReading
from scaletest.judge.judging import Judgement, Soaked
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.summary import (
    Summary,
    SummaryCheck,
    SummaryCost,
    SummaryFailure,
    SummaryGate,
    SummaryHop,
    SummaryMove,
    SummaryRamp,
    SummarySample,
    SummaryScale,
    SummaryTarget,
    SummaryWindows,
)
from scaletest.model.contexts import classify_context
from scaletest.model.documents.substrate import Substrate
from scaletest.model.plan import Plan
from scaletest.toolchain.helm import HELM
from scaletest.toolchain.tools import GO_TOOLS

# A curve on a page needs no more.
_MOST_SAMPLES = 240


@dataclass(frozen=True)
class SoakSample:
    """Every gate's value at one moment of the soak; a gate without one is left out."""

    seconds: float
    gates: dict[str, float]


@dataclass
class RunFacts:
    """What a run learns about itself on the way."""

    plan: Plan
    run_id: str
    # The kube context; empty: the embedded host.
    context: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    # How long the fleet took to settle; 0 if it never did.
    ramp_seconds: float = 0.0
    # When the soak began, in unix seconds, whether or not it was held to its end.
    soak_start: float | None = None
    soaked: Soaked | None = None
    samples: list[SoakSample] = field(default_factory=list)
    judgement: Judgement = field(default_factory=lambda: Judgement([], []))
    hops: list[HopReading] = field(default_factory=list)
    informational: dict[str, float] = field(default_factory=dict)
    snapshot: dict[str, int] = field(default_factory=dict)
    ledger: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Record how long a step took, however it ended."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = round(time.monotonic() - started, 3)


def summarise(facts: RunFacts, outcome: RunOutcome) -> Summary:
    """The document. Finite numbers only; −1 is a metric that was not measured (BF-0017)."""
    plan, geometry, soaked = facts.plan, facts.plan.geometry, facts.soaked
    gate_values = {g.key: UNMEASURED_VALUE if g.value is None else g.value for g in facts.judgement.gates}
    return Summary(
        api_version="bigfleet.io/scaletest/v1",
        kind="Summary",
        run_id=facts.run_id,
        profile=plan.profile_name,
        substrate=plan.substrate_name,
        target=SummaryTarget(
            context=facts.context or plan.substrate_name,
            kind=classify_context(facts.context) if facts.context else "embedded",
        ),
        cost=SummaryCost(
            estimated_usd=plan.cost.soak_usd,
            estimated_run_usd=plan.cost.run_usd,
            hours=round(plan.cost.soak_hours, 3),
        ),
        scale=SummaryScale(
            kwok_clusters=geometry.kwok_clusters,
            pods_per_cluster=geometry.pods_per_cluster,
            total_pods=plan.pods,
            machines=plan.profile.scale.machines,
            machines_demanded=plan.demand.total_machines,
            shards=geometry.shards,
            hosts=geometry.hosts,
            seeded=plan.seeded,
        ),
        seed=plan.seed,
        tool_versions={name: tool.release for name, tool in GO_TOOLS.items()} | {HELM.name: HELM.release},
        substrate_fingerprint=fingerprint(plan.substrate),
        seconds=facts.seconds,
        ramp=SummaryRamp(
            seconds=facts.ramp_seconds,
            pods_per_sec=round(plan.pods / facts.ramp_seconds, 2) if facts.ramp_seconds else 0.0,
        ),
        windows=SummaryWindows(
            soak_start=facts.soak_start,
            soak_end=soaked.window.end if soaked else None,
            gate_window_seconds=plan.window_seconds,
            moves=tuple(_moves(plan)),
        ),
        metrics=facts.informational | gate_values,
        gates=tuple(SummaryGate(**vars(record)) for record in facts.judgement.gates),
        gate_samples=tuple(
            SummarySample(seconds=round(sample.seconds, 1), gates=sample.gates) for sample in _thinned(facts.samples)
        ),
        self_check=tuple(SummaryCheck(**vars(record)) for record in facts.judgement.checks),
        strained=soaked.seen.pressed if soaked else (),
        restarts=dict(soaked.seen.restarts) if soaked else {},
        cut_short=soaked.cut_short if soaked else "",
        unmeasured_slos=tuple(g.key for g in facts.judgement.gates if g.verdict in ("no-data", "saturated")),
        hops=tuple(
            SummaryHop(row=r.hop.row, name=r.hop.name, actor=r.hop.actor, query=r.hop.query, passed=r.passed)
            for r in facts.hops
        ),
        snapshot=facts.snapshot,
        ledger=facts.ledger,
        verdict=outcome.verdict,
        passed=outcome.passed,
        exit_code=outcome.exit_code,
        failure=outcome.headline,
        failures=tuple(
            SummaryFailure(exit_code=code, reason=sentence, certain=sentence in outcome.certain)
            for code, sentence in outcome.failures
        ),
    )


def _moves(plan: Plan) -> Iterator[SummaryMove]:
    for moves, left_out in ((plan.moves, False), (plan.moves_left_out, True)):
        for move in moves:
            yield SummaryMove(
                what=move.what,
                at_seconds=move.at_seconds,
                within_seconds=move.within_seconds,
                up=move.up,
                machines=move.machines,
                left_out=left_out,
            )


def fingerprint(substrate: Substrate) -> str:
    """The same for the same ground: figures of runs that differ here cannot be compared."""
    text = json.dumps(substrate.model_dump(mode="json", by_alias=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _thinned(samples: list[SoakSample]) -> list[SoakSample]:
    """Evenly spaced, the last one included; events.jsonl has them all."""
    every = max(1, -(-len(samples) // _MOST_SAMPLES))
    return samples[::-1][::every][::-1]

"""summary.json: the runbook's keys, plus what a reader needs to trust them."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from scaletest.judge.gates import UNMEASURED_VALUE
from scaletest.judge.hops import HopReading
from scaletest.judge.judging import Judgement, Soaked
from scaletest.judge.outcome import Outcome
from scaletest.judge.summarydoc import Summary, SummaryCheck, SummaryGate, SummarySample
from scaletest.model.contexts import classify_context
from scaletest.model.plan import Plan
from scaletest.model.substrate import Substrate
from scaletest.toolchain.helm import HELM
from scaletest.toolchain.tools import GO_TOOLS

# A curve on a page needs no more.
_MOST_SAMPLES = 240


@dataclass(frozen=True)
class SoakSample:
    """Every gate's value at one moment of the soak; a gate without one is left out."""

    seconds: float
    gates: dict[str, float]

    def document(self) -> dict[str, Any]:
        return {"seconds": round(self.seconds, 1), "gates": self.gates}


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

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Record how long a step took, however it ended."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = round(time.monotonic() - started, 3)


def summarise(facts: RunFacts, outcome: Outcome) -> dict[str, Any]:
    """The document. Finite numbers only; −1 is a metric that was not measured (ADR-0017)."""
    plan, geometry = facts.plan, facts.plan.geometry
    gate_values = {g.key: UNMEASURED_VALUE if g.value is None else g.value for g in facts.judgement.gates}
    document: Summary = {
        "runId": facts.run_id,
        "profile": plan.profile_name,
        "substrate": plan.substrate_name,
        "target": {
            "context": facts.context or plan.substrate_name,
            "kind": classify_context(facts.context) if facts.context else "embedded",
        },
        "cost": {
            "estimatedUsd": plan.cost.soak_usd,
            "estimatedRunUsd": plan.cost.run_usd,
            "hours": round(plan.cost.soak_hours, 3),
        },
        "scale": {
            "kwokClusters": geometry.kwok_clusters,
            "podsPerCluster": geometry.pods_per_cluster,
            "totalPods": plan.pods,
            "machines": plan.profile.scale.machines,
            "machinesDemanded": plan.demand.total_machines,
            "shards": geometry.shards,
            "hosts": geometry.hosts,
            "seeded": plan.seeded,
        },
        "seed": plan.seed,
        "toolVersions": {name: tool.release for name, tool in GO_TOOLS.items()} | {HELM.name: HELM.release},
        "substrateFingerprint": fingerprint(plan.substrate),
        "seconds": facts.seconds,
        "ramp": {
            "seconds": facts.ramp_seconds,
            "podsPerSec": round(plan.pods / facts.ramp_seconds, 2) if facts.ramp_seconds else 0.0,
        },
        "windows": {
            "soakStart": facts.soak_start,
            "soakEnd": facts.soaked.window.end if facts.soaked else None,
            "gateWindowSeconds": plan.window_seconds,
        },
        "metrics": facts.informational | gate_values,
        "gates": [cast(SummaryGate, record.document()) for record in facts.judgement.gates],
        "gateSamples": [cast(SummarySample, sample.document()) for sample in _thinned(facts.samples)],
        "selfCheck": [cast(SummaryCheck, record.document()) for record in facts.judgement.checks],
        "restarts": dict(facts.soaked.strain.restarts) if facts.soaked else {},
        "cutShort": facts.soaked.cut_short if facts.soaked else "",
        "unmeasuredSLOs": [g.key for g in facts.judgement.gates if g.verdict in ("no-data", "saturated")],
        "hops": [
            {"row": r.hop.row, "name": r.hop.name, "actor": r.hop.actor, "query": r.hop.query, "passed": r.passed}
            for r in facts.hops
        ],
        "snapshot": facts.snapshot,
        "verdict": outcome.verdict,
        "passed": outcome.passed,
        "exitCode": outcome.exit_code,
        "failure": outcome.headline,
        "failures": [{"exitCode": code, "reason": sentence} for code, sentence in outcome.failures],
    }
    return dict(document)


def fingerprint(substrate: Substrate) -> str:
    """The same for the same ground: figures of runs that differ here cannot be compared."""
    text = json.dumps(substrate.model_dump(mode="json", by_alias=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _thinned(samples: list[SoakSample]) -> list[SoakSample]:
    """Evenly spaced, the last one included; events.jsonl has them all."""
    every = max(1, -(-len(samples) // _MOST_SAMPLES))
    return samples[::-1][::every][::-1]

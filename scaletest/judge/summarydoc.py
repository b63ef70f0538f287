"""The shape of summary.json. Plain dicts, so that writing the evidence can never fail on its own model."""

from typing import NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from scaletest.judge.gates import Verdict
from scaletest.judge.outcome import Conclusion
from scaletest.judge.selfcheck import CheckVerdict
from scaletest.model.contexts import TargetKind

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


@with_config(_STRICT)
class SummaryTarget(TypedDict):
    """Where the run was."""

    context: str
    """The kube context, or the embedded host."""
    kind: TargetKind
    """The embedded host, or what the context's name suggests."""


@with_config(_STRICT)
class SummaryCost(TypedDict):
    """What the hosts cost by the substrate's price."""

    estimatedUsd: float
    """The soak alone."""
    estimatedRunUsd: float
    """The whole run."""
    hours: float
    """Length of the soak."""


@with_config(_STRICT)
class SummaryScale(TypedDict):
    """How large the run was."""

    kwokClusters: int
    """KWOK clusters."""
    podsPerCluster: int
    """Pods asked for in each cluster."""
    totalPods: int
    """Pods drawn over all clusters."""
    machines: int
    """The profile's nominal machines."""
    machinesDemanded: int
    """Machines that the drawn Pods need."""
    shards: int
    """Shards."""
    hosts: int
    """Hosts that carried the run."""
    seeded: dict[str, int]
    """Machines of each tier at the start: configured, idle, speculative, spot."""


@with_config(_STRICT)
class SummaryRamp(TypedDict):
    """How the fill went."""

    seconds: float
    """From install to steady state; 0 if it was never reached."""
    podsPerSec: float
    """Pods over that time."""


@with_config(_STRICT)
class SummaryWindows(TypedDict):
    """When the figures are from."""

    soakStart: float | None
    """Unix seconds; null if there was no soak."""
    soakEnd: float | None
    """Unix seconds; null if the soak was not held: an interrupt or a cap ended it, or something broke away."""
    gateWindowSeconds: int
    """How far back from the end of the soak a gate looks."""


@with_config(_STRICT)
class SummaryGate(TypedDict):
    """A judged gate."""

    key: str
    """Its name in `metrics`."""
    title: str
    """Its name for people."""
    query: str
    """The PromQL that was asked."""
    value: NotRequired[float]
    """What was measured; left out if nothing was."""
    bound: float
    """The bar."""
    least: bool
    """The value must reach the bound, rather than stay at or below it."""
    observations: NotRequired[int]
    """How many observations stand behind the value; left out where nothing is counted."""
    verdict: Verdict
    """Only `pass` and `skipped` let a run pass."""
    reason: str
    """The verdict in words."""
    held: bool
    """The same bar at every size (ADR-0028)."""


@with_config(_STRICT)
class SummarySample(TypedDict):
    """The gates at one moment of the soak."""

    seconds: float
    """Since the soak began."""
    gates: dict[str, float]
    """Value by key, over what had passed of the window; a gate without a value is left out."""


@with_config(_STRICT)
class SummaryCheck(TypedDict):
    """Whether one part of the harness kept up during the soak."""

    key: str
    """The substrate's field in `selfCheck`."""
    title: str
    """Its name for people."""
    value: NotRequired[float]
    """The worst that was measured; left out if nothing was."""
    limit: float
    """The substrate's limit."""
    verdict: CheckVerdict
    """`over` makes the run's verdict void."""
    reason: str
    """The verdict in words."""


@with_config(_STRICT)
class SummaryHop(TypedDict):
    """One step of a Pod's way, and whether anything took it."""

    row: int
    """Its place in the order of cause and effect."""
    name: str
    """What happens."""
    actor: str
    """Who does it."""
    query: str
    """A count or gauge that is above zero once it happened."""
    passed: float | None
    """The query's value at the end; null if it had none."""


@with_config(_STRICT)
class SummaryFailure(TypedDict):
    """A reason not to pass."""

    exitCode: int
    """What it alone would end with."""
    reason: str
    """In words."""


@with_config(_STRICT)
class Summary(TypedDict):
    """What a run was, what was measured, and the verdict. Every number is finite."""

    runId: str
    """Start in UTC and the profile's name; the label of everything the run made."""
    profile: str
    """The profile's name."""
    substrate: str
    """The substrate's name."""
    target: SummaryTarget
    """Where the run was."""
    cost: SummaryCost
    """What the hosts cost."""
    scale: SummaryScale
    """How large the run was."""
    seed: int
    """Repeats the draw, the churn and the losses."""
    toolVersions: dict[str, str]
    """The pinned release of every real binary."""
    substrateFingerprint: str
    """The same for the same substrate, field by field; figures of other substrates cannot be compared."""
    seconds: dict[str, float]
    """How long each step took."""
    ramp: SummaryRamp
    """How the fill went."""
    windows: SummaryWindows
    """When the figures are from."""
    metrics: dict[str, float]
    """Every figure by name; −1 was not measured (ADR-0017)."""
    gates: list[SummaryGate]
    """The judged gates."""
    gateSamples: list[SummarySample]
    """The gates' values through the soak, evenly thinned."""
    selfCheck: list[SummaryCheck]
    """Whether the harness kept up; empty if there was no soak."""
    restarts: dict[str, int]
    """`pod/container` → how often it ended during the soak; those that did not are left out."""
    cutShort: str
    """Why the soak was ended before its time; empty if it was not."""
    unmeasuredSLOs: list[str]
    """Gates without enough data, or beyond what their histogram can show."""
    hops: list[SummaryHop]
    """One Pod's way."""
    snapshot: dict[str, int]
    """Blocks, series, samples and bytes of the kept Prometheus snapshot; empty if none was kept."""
    verdict: Conclusion
    """`void`: the harness was overloaded. `incomplete`: the run did not come to its end. `refused`: it was not begun.
    None of them says a thing about BigFleet."""
    passed: bool
    """Whether every gate passed and nothing else was wrong."""
    exitCode: int
    """What the runner ended with."""
    failure: str
    """The reason behind the exit code; empty if the run passed."""
    failures: list[SummaryFailure]
    """Every reason, in the order in which they were found."""

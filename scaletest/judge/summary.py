"""summary.json: one typed, versioned document, written and read by the same strict model. The runbook's keys stay."""

import json
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from scaletest.judge.gates.gate import Component, Unit, Verdict
from scaletest.judge.gates.measures import Source
from scaletest.judge.gates.windows import WindowKind
from scaletest.judge.outcome import Conclusion
from scaletest.judge.selfcheck.checks import About, CheckUnit, CheckVerdict
from scaletest.model.contexts import TargetKind
from scaletest.model.documents.base import Document
from scaletest.model.json_types import Json

API_VERSION = "bigfleet.io/scaletest/v1"


class SummaryTarget(Document):
    """Where the run was."""

    context: str
    """The kube context, or the embedded host."""
    kind: TargetKind
    """The embedded host, or what the context's name suggests."""


class SummaryCost(Document):
    """What the hosts cost by the substrate's price."""

    estimated_usd: float
    """The soak alone."""
    estimated_run_usd: float
    """The whole run."""
    hours: float
    """Length of the soak."""


class SummaryScale(Document):
    """How large the run was."""

    kwok_clusters: int
    """KWOK clusters."""
    pods_per_cluster: int
    """Pods asked for in each cluster."""
    total_pods: int
    """Pods drawn over all clusters."""
    machines: int
    """The profile's nominal machines."""
    machines_demanded: int
    """Machines that the drawn Pods need."""
    shards: int
    """Shards."""
    hosts: int
    """Hosts that carried the run."""
    seeded: dict[str, int]
    """Machines of each tier at the start: configured, idle, speculative, spot."""


class SummaryRamp(Document):
    """How the fill went."""

    seconds: float
    """From install to steady state; 0 if it was never reached."""
    pods_per_sec: float
    """Pods over that time."""


class SummaryMove(Document):
    """A step of demand that was judged in a window of its own, or left out because the soak was too short for it."""

    what: str
    """In words."""
    at_seconds: float
    """Offset from soak start."""
    within_seconds: float
    """How long its window is."""
    up: bool
    """Demand comes; else it goes."""
    machines: int
    """That it brings, or sets free."""
    left_out: bool
    """It did not happen: the soak does not hold its window."""


class SummaryWindows(Document):
    """When the figures are from."""

    soak_start: float | None
    """Unix seconds; null if there was no soak."""
    soak_end: float | None
    """Unix seconds; null if the soak was not held: an interrupt or a cap ended it, or something broke away."""
    gate_window_seconds: int
    """How far back from the end of the soak the bars of the hops look."""
    moves: tuple[SummaryMove, ...] = ()
    """Steps of demand."""


class SummaryGate(Document):
    """A judged gate."""

    key: str
    """Its name in `metrics`."""
    title: str
    """Its name for people."""
    unit: Unit | Literal[""] = ""
    """Of value and bar; empty in evidence from before gates had one."""
    component: Component | Literal[""] = ""
    """Whose mistake a failure points to."""
    query: str
    """The PromQL that was asked, or what was looked at instead: see `source`."""
    source: Source = "PromQL"
    """Where the value comes from."""
    window: WindowKind = "soak"
    """Which part of the soak counts."""
    value: float | None = None
    """What was measured; left out if nothing was."""
    bar: float
    """What the value is held against."""
    least: bool
    """The value must reach the bar, rather than stay at or below it."""
    observations: int | None = None
    """How many observations stand behind the value; left out where nothing is counted."""
    verdict: Verdict
    """Only `pass` and `skipped` let a run pass."""
    reason: str
    """The verdict in words."""
    held: bool
    """The same bar at every size (BF-0028)."""
    strainable: bool = False
    """Whether a strained machine can cause a failure of it."""
    at: tuple[float, float] | None = None
    """When it was beyond its bar, in unix seconds, where that is known."""


class SummarySample(Document):
    """The gates at one moment of the soak."""

    seconds: float
    """Since the soak began."""
    gates: dict[str, float]
    """Value by key, over what had passed of the window; a gate without a value is left out."""


class SummaryCheck(Document):
    """Whether the load came, and how strained the machine was."""

    key: str
    """The substrate's field in `selfCheck`."""
    title: str
    """Its name for people."""
    about: About = "strain"
    """`load`: beyond its limit the verdict is void. `strain`: it explains what strain can cause."""
    unit: CheckUnit | Literal[""] = ""
    """Of value and limit."""
    value: float | None = None
    """The worst that was measured; left out if nothing was."""
    limit: float
    """The substrate's limit."""
    least: bool = False
    """The value must reach the limit, rather than stay at or below it."""
    verdict: CheckVerdict
    """`over`: beyond the limit."""
    reason: str
    """The verdict in words."""


class SummaryHop(Document):
    """One step of a Pod's way, and whether anything took it."""

    row: int
    """Its place in the order of cause and effect."""
    name: str
    """What happens."""
    actor: str
    """The component that does it."""
    query: str
    """A count or gauge that is above zero once it happened."""
    passed: float | None
    """The query's value at the end; null if it had none."""


class SummaryFailure(Document):
    """A reason not to pass."""

    exit_code: int
    """What it alone would end with."""
    reason: str
    """In words."""
    certain: bool = False
    """A gate failed that no strain can push beyond its bar: that comes before `void`."""


class Summary(Document):
    """What a run was, what was measured, and the verdict. Every number is finite."""

    api_version: Literal["bigfleet.io/scaletest/v1"]
    """Of this document."""
    kind: Literal["Summary"]
    """Of this document."""
    run_id: str
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
    tool_versions: dict[str, str]
    """The pinned release of every real binary."""
    substrate_fingerprint: str
    """The same for the same substrate, field by field; figures of other substrates cannot be compared."""
    seconds: dict[str, float]
    """How long each step took."""
    ramp: SummaryRamp
    """How the fill went."""
    windows: SummaryWindows
    """When the figures are from."""
    metrics: dict[str, float]
    """Every figure by name; −1 was not measured (BF-0017)."""
    gates: tuple[SummaryGate, ...]
    """The judged gates."""
    gate_samples: tuple[SummarySample, ...]
    """The gates' values through the soak, evenly thinned."""
    self_check: tuple[SummaryCheck, ...]
    """Whether the load came, and how strained the machine was; empty if there was no soak."""
    strained: tuple[tuple[float, float], ...] = ()
    """Minutes in which cores were short beyond the limit, as start and end in unix seconds."""
    restarts: dict[str, int]
    """`pod/container` → how often it ended during the soak; those that did not are left out."""
    cut_short: str
    """Why the soak was ended before its time; empty if it was not."""
    unmeasured_slos: Annotated[tuple[str, ...], Field(alias="unmeasuredSLOs")]
    """Gates without enough data, or beyond what their histogram can show."""
    hops: tuple[SummaryHop, ...]
    """One Pod's way."""
    snapshot: dict[str, int]
    """Blocks, series, samples and bytes of the kept Prometheus snapshot; empty if none was kept."""
    ledger: dict[str, int] = Field(default_factory=dict)
    """Lines, calls, strikes and violations in the kept ledger of the provider; empty if none was kept."""
    verdict: Conclusion
    """`void`: the load did not come, or a bar was missed that strain can cause, under strain. `incomplete`: the run did
    not come to its end. `refused`: it was not begun. None of them says a thing about BigFleet."""
    passed: bool
    """Whether every gate passed and nothing else was wrong."""
    exit_code: int
    """What the runner ended with."""
    failure: str
    """The reason behind the exit code; empty if the run passed."""
    failures: tuple[SummaryFailure, ...]
    """Every reason, in the order in which they were found."""

    def document(self) -> dict[str, Json]:
        """As it is written: what has no value is left out, but for the nulls that mean something."""
        document = self.model_dump(mode="json", by_alias=True)
        for entry in (*document["gates"], *document["selfCheck"]):
            for name in [name for name, value in entry.items() if value is None]:
                del entry[name]
        return document

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ValueError that names the field. A document without apiVersion is from before there was one."""
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("it is no map")
        if "apiVersion" not in document:
            document |= {"apiVersion": API_VERSION, "kind": "Summary"}
        _rename_bounds(document)
        try:
            # As JSON, so that tuples may be lists and the rest is strict.
            return cls.model_validate_json(json.dumps(document), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{where}: {first['msg'].lower()}") from error


def _rename_bounds(document: dict[str, Json]) -> None:
    """What is now called a gate's bar was its `bound` once."""
    gates = document.get("gates")
    for gate in gates if isinstance(gates, list) else ():
        if isinstance(gate, dict) and "bound" in gate:
            gate["bar"] = gate.pop("bound")

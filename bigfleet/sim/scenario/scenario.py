"""A scenario in YAML: machines, clusters with their demand, what goes wrong, and what must come true. Strict."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from bigfleet.core.quantity import parse_milli
from bigfleet.sim.scenario.document import ActionName, NonNegative, Positive, ScenarioDocument, Share
from bigfleet.sim.scenario.troubles import EmptyRollupFault, Fault, LoseFault, PartitionFault, StockoutFault, Window

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


# In thousandths: 100 TB of memory. Sums of them must stay far below 2**63.
_MOST_MILLI = 10**17


def _is_amount(text: str) -> str:
    milli = parse_milli(text)
    if milli <= 0:
        raise ValueError("must be above 0; leave out what is not asked for or not there")
    if milli > _MOST_MILLI:
        raise ValueError("must be at most 100T")
    return text


Quantities = Annotated[dict[str, Annotated[str, AfterValidator(_is_amount)]], Field(min_length=1)]


class LatencyModel(ScenarioDocument):
    """Log-normal seconds; equal median and p99 is a constant."""

    median_seconds: NonNegative
    p99_seconds: NonNegative

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.p99_seconds < self.median_seconds or (self.median_seconds == 0 < self.p99_seconds):
            raise ValueError("p99Seconds must not be below medianSeconds, and both are 0 or neither is")
        return self


class ProviderSection(ScenarioDocument):
    """How long things take, and how often they fail by themselves."""

    create: LatencyModel = LatencyModel(median_seconds=0.5, p99_seconds=2.0)
    configure: LatencyModel = LatencyModel(median_seconds=0.3, p99_seconds=1.0)
    drain: LatencyModel = LatencyModel(median_seconds=0.3, p99_seconds=1.0)
    delete: LatencyModel = LatencyModel(median_seconds=0.3, p99_seconds=1.0)
    create_failure_ratio: Share = 0.0
    configure_failure_ratio: Share = 0.0
    drain_failure_ratio: Share = 0.0
    # A Failed machine is back after so long; 0: never.
    repair_seconds: NonNegative = 0.0


class EngineSection(ScenarioDocument):
    """The shard's knobs; the defaults are the product's."""

    cycle_seconds: Positive = 10.0
    rollup_seconds: Positive = 10.0
    # One synchronous step per cycle; the provider is looked at only then.
    lockstep: bool = False
    reclaim_cap_fraction: Share = 0.05
    release_cap_fraction: Share = 0.05
    # The window of both caps.
    cap_window_seconds: Positive = 10.0
    reclaim_after_seconds: NonNegative = 30.0
    empty_rollup_guard: bool = True
    # How long a machine that no need wants is kept; null: for ever.
    on_demand_hold_seconds: NonNegative | None = 300.0
    spot_hold_seconds: NonNegative | None = 60.0
    reserved_hold_seconds: NonNegative | None = None
    bare_metal_hold_seconds: NonNegative | None = None
    # The kill switch, and the shadow mode: decide everything, do nothing, and say how much that was.
    actuation_paused: bool = False
    dry_run: bool = False


class HistoricSection(ScenarioDocument):
    """Bugs of the past, to be looked at again; all true is today's behaviour."""

    controller_managed: bool = True
    request_per_pod: bool = True
    credits_creating: bool = True


class MachineSection(ScenarioDocument):
    """`count` machines, dealt out over the zones and their racks."""

    name: Name
    count: Annotated[int, Field(gt=0, le=1_000_000)]
    state: Literal["Idle", "Speculative", "Configured"] = "Speculative"
    # Configured machines belong to one; `*` deals them out to all.
    cluster: str = ""
    instance_type: str
    zones: Annotated[tuple[str, ...], Field(min_length=1)] = ("zone-a",)
    racks_per_zone: Annotated[int, Field(gt=0, le=10_000)] = 1
    capacity_type: Literal["BareMetal", "Reserved", "OnDemand", "Spot"] = "OnDemand"
    price_per_hour: NonNegative = 0.0
    interruption_probability: Share = 0.0
    allocatable: Quantities

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if (self.state == "Configured") != bool(self.cluster):
            raise ValueError("cluster goes with state Configured, and only with it")
        if self.capacity_type == "Spot" and self.interruption_probability == 0:
            raise ValueError("interruptionProbability of a Spot machine must be above 0")
        return self

    def racks(self) -> list[str]:
        return [rack_name(zone, number) for zone in self.zones for number in range(self.racks_per_zone)]


class WeightedPriority(ScenarioDocument):
    priority: Annotated[int, Field(ge=0, le=2_000_000_000)]
    weight: Positive = 1.0


class SpreadSection(ScenarioDocument):
    topology_key: str = "topology.kubernetes.io/zone"
    max_skew: Annotated[int, Field(ge=1)] = 1


class JobsSection(ScenarioDocument):
    """Jobs arrive as a Poisson process, each with so many Pods, and end after a random life."""

    per_minute: Positive
    mean_lifetime_seconds: Positive
    replicas: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.replicas[0] > self.replicas[1]:
            raise ValueError("replicas starts above its end")
        return self


class RampSection(ScenarioDocument):
    """From `replicas` of the workload to `to`, evenly."""

    from_seconds: NonNegative
    to_seconds: NonNegative
    to: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.from_seconds >= self.to_seconds:
            raise ValueError("fromSeconds must be below toSeconds")
        return self


class StepSection(ScenarioDocument):
    at_seconds: NonNegative
    replicas: Annotated[int, Field(ge=0)]


class WorkloadSection(ScenarioDocument):
    """One kind of work: `copies` equal controllers of `replicas` Pods each, or a stream of jobs."""

    name: Name
    copies: Annotated[int, Field(gt=0, le=100_000)] = 1
    replicas: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    pod: Quantities
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    priority: Annotated[int, Field(ge=0, le=2_000_000_000)] | None = None
    # A mix instead of one priority: drawn for each copy or job.
    priorities: tuple[WeightedPriority, ...] = ()
    interruption_penalty: NonNegative = 0.0
    reclamation_penalty: NonNegative = 0.0
    # All Pods of a copy or job share a rack or a zone.
    gang: Literal["rack", "zone"] | None = None
    spread: SpreadSection | None = None
    churn_per_minute: Share = 0.0
    ramp: RampSection | None = None
    steps: tuple[StepSection, ...] = ()
    jobs: JobsSection | None = None

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.jobs and (self.replicas or self.ramp or self.steps or self.copies > 1):
            raise ValueError("jobs bring their own Pods: replicas, copies, ramp and steps do not go with them")
        if self.priority is not None and self.priorities:
            raise ValueError("priority and priorities exclude each other")
        if self.gang and (self.spread or self.ramp or self.steps):
            raise ValueError("a gang has no spread, ramp or steps")
        return self

    def names(self) -> list[str]:
        """What its controllers are called; jobs get names of their own."""
        return [self.name] if self.copies == 1 else [f"{self.name}-{index}" for index in range(self.copies)]


class ClusterSection(ScenarioDocument):
    """`count` clusters of one shape, called `<name>-<i>`; one alone is called `<name>`."""

    name: Name
    count: Annotated[int, Field(gt=0, le=10_000)] = 1
    workloads: tuple[WorkloadSection, ...] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        seen: set[str] = set()
        for name in (name for workload in self.workloads for name in workload.names()):
            if name in seen:
                raise ValueError(f"two workloads are called {name}")
            seen.add(name)
        return self

    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{index}" for index in range(self.count)]


class Bound(ScenarioDocument):
    """How many actions of a kind may or must be taken in a stretch of the run (its whole length if left out)."""

    action: ActionName
    from_seconds: NonNegative = 0.0
    to_seconds: NonNegative | None = None
    at_least: Annotated[int, Field(ge=0)] = 0
    at_most: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _can_be_broken(self) -> Self:
        if not self.at_least and self.at_most is None:
            raise ValueError("give atLeast or atMost: anything else always holds")
        if self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("atLeast is above atMost")
        if self.to_seconds is not None and self.from_seconds >= self.to_seconds:
            raise ValueError("fromSeconds must be below toSeconds")
        return self


class Expectations(ScenarioDocument):
    """What must come true. That no machine leaks is always expected."""

    # From then on nothing may stand short.
    no_shortfall_from_seconds: NonNegative | None = None
    # Something must stand short at some time.
    some_shortfall: bool = False
    all_pods_bound_at_end: bool = False
    # No machine in a transitional state or Failed at the end.
    settled_at_end: bool = False
    actions: tuple[Bound, ...] = ()


class Scenario(ScenarioDocument):
    """The whole file."""

    name: Name
    description: str
    seed: int = 1
    duration_seconds: Annotated[float, Field(gt=0, le=100_000_000)]
    # The trace holds every action, or (for large runs) numbers of actions only.
    trace: Literal["actions", "counts"] = "actions"
    engine: EngineSection = EngineSection()
    provider: ProviderSection = ProviderSection()
    historic: HistoricSection = HistoricSection()
    machines: Annotated[tuple[MachineSection, ...], Field(min_length=1)]
    clusters: Annotated[tuple[ClusterSection, ...], Field(min_length=1)]
    faults: tuple[Fault, ...] = ()
    expect: Expectations = Expectations()

    @model_validator(mode="after")
    def _references(self) -> Self:
        names = [name for section in self.clusters for name in section.names()]
        if len(set(names)) < len(names):
            raise ValueError("two clusters have the same name")
        if len({section.name for section in self.machines}) < len(self.machines):
            raise ValueError("two entries of machines have the same name")
        wanted = [("machines", section.cluster) for section in self.machines if section.cluster not in ("", "*")]
        wanted += [
            ("faults", fault.cluster) for fault in self.faults if isinstance(fault, PartitionFault | EmptyRollupFault)
        ]
        for field, name in wanted:
            if name not in names:
                raise ValueError(f"{field}: there is no cluster {name!r}; there are {', '.join(sorted(names)[:10])}")
        self._in_time()
        self._in_place()
        offered = {dimension for section in self.machines for dimension in section.allocatable}
        for section in self.clusters:
            for workload in section.workloads:
                if missing := workload.pod.keys() - offered:
                    raise ValueError(f"{section.name}/{workload.name}: no machine offers {min(missing)}")
        return self

    def _in_time(self) -> None:
        """Nothing is left to a time that never comes: it would be passed over in silence."""
        times = [(f"faults[{index}]", _start(fault)) for index, fault in enumerate(self.faults)]
        for section in self.clusters:
            for workload in section.workloads:
                where = f"{section.name}/{workload.name}"
                times += [(f"{where}: steps", step.at_seconds) for step in workload.steps]
                times += [(f"{where}: ramp", workload.ramp.from_seconds)] if workload.ramp else []
        times += [("expect.noShortfallFromSeconds", self.expect.no_shortfall_from_seconds or 0.0)]
        times += [(f"expect.actions[{index}]", bound.from_seconds) for index, bound in enumerate(self.expect.actions)]
        for field, seconds in times:
            if seconds >= self.duration_seconds:
                raise ValueError(f"{field}: {seconds:g} s is not before the end, at {self.duration_seconds:g} s")

    def _in_place(self) -> None:
        """Every fault names places that there are."""
        known = {
            "instanceTypes": {section.instance_type for section in self.machines},
            "zones": {zone for section in self.machines for zone in section.zones},
            "racks": {rack for section in self.machines for rack in section.racks()},
        }
        for index, fault in enumerate(self.faults):
            if isinstance(fault, LoseFault | StockoutFault):
                where = fault.where
                named = {"instanceTypes": where.instance_types, "zones": where.zones, "racks": where.racks}
                for field, values in named.items():
                    for value in set(values) - known[field]:
                        there = ", ".join(sorted(known[field])[:10])
                        raise ValueError(
                            f"faults[{index}].where.{field}: no machine is of {value!r}; there are {there}"
                        )


def rack_name(zone: str, number: int) -> str:
    return f"{zone}-rack-{number}"


def _start(fault: Fault) -> float:
    return fault.from_seconds if isinstance(fault, Window) else fault.at_seconds

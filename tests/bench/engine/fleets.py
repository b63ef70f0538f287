"""Synthetic fleets for the hot benches: the same machines and roll-ups for the same shape, made one at a time.

Archetypes, sizes and mix are the shipped catalog's (`profiles/archetypes/realistic.yaml`); what a row asks for comes
the way of a real Pod: manifest, CapacityRequest, roll-up. Nothing is kept per machine or row, so that millions fit.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bigfleet.core.machines import CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import RACK_KEY, NeedProfile
from bigfleet.core.vectors import Vector, scaled
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.model.demand.draw import Workload, cluster_id
from scaletest.model.demand.sizing import machine_share
from scaletest.model.documents.catalog import Archetype, Size
from scaletest.model.files.reading import read_profile

ZONES = ("zone-a", "zone-b", "zone-c")
RACKS_PER_ZONE = 10
_DENSITY = 100
_ON_DEMAND_USD_PER_HOUR = 1.0
_ON_DEMAND_INTERRUPTION = 0.05
# Idle machines beyond what is asked for, as the ladder's profiles seed them (seed.idleHeadroomFraction).
_IDLE_HEADROOM = 0.2
# Clusters differ in size by this much either way.
_UNEVEN = 0.2
# A gang that does not fold asks for more than one machine and less than two.
_UNFOLDED_PODS = (_DENSITY + 10, 2 * _DENSITY - 10)
# Two machines' worth of it fit on one of stateful-db's, so it would fold nevertheless.
_FITS_ANOTHERS_MACHINE = "memory-cache"


@dataclass(frozen=True)
class Shape:
    """How large a fleet is, and of what kind its demand."""

    name: str
    clusters: int
    # In all states; those that the demand does not take stay free.
    machines: int
    # Need rows that each cluster sends, before folding.
    rows: int
    # Machines that the plain rows of a cluster ask for; gangs come on top.
    plain_machines: int
    # Small gangs fit on one machine and fold; without, each is a row of its own for the engine too.
    folds: bool = True
    # Few gangs, and plain rows for each zone alone: the regime in which 1,000 Pods are 20 rows.
    aggregated: bool = False

    @property
    def need_rows(self) -> int:
        return self.clusters * self.rows


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("5k", clusters=20, machines=22_500, rows=388, plain_machines=230),
        Shape("5k-unfolded", clusters=20, machines=22_500, rows=388, plain_machines=150, folds=False),
        Shape("50k", clusters=200, machines=225_000, rows=212, plain_machines=250),
        Shape("500k-aggregated", clusters=50, machines=500_000, rows=20, plain_machines=1_000, aggregated=True),
        Shape("500k-full", clusters=50, machines=500_000, rows=20, plain_machines=8_500, aggregated=True),
        Shape("5m", clusters=500, machines=5_000_000, rows=20, plain_machines=1_000, aggregated=True),
        Shape("500k", clusters=2_000, machines=2_530_000, rows=388, plain_machines=230),
    )
}


@dataclass(frozen=True, eq=False)
class _Row:
    """One kind of row that clusters send."""

    archetype: Archetype
    profile: NeedProfile
    # What one Pod asks for, and what one of the archetype's machines offers.
    pod: Vector
    machine: Vector
    # A plain row's part of the cluster's plain machines, or a gang's part of its gangs.
    share: float


class Demand:
    """What the clusters of a shape ask for."""

    def __init__(self, shape: Shape, archetypes: Sequence[Archetype]) -> None:
        self._shape = shape
        self._plain = list(_shared(_plain_rows(archetypes, shape.aggregated)))
        self._gangs = list(_shared(_gang_rows(archetypes, shape)))
        highest = max(row.profile.priority for row in self._plain)
        self._urgent = [row for row in self._plain if row.profile.priority == highest]
        self._vectors: dict[tuple[str, int], Vector] = {}
        if shape.rows < len(self._plain):
            raise ValueError(f"{shape.name}: a cluster sends at least {len(self._plain)} rows")

    @property
    def gangs_per_cluster(self) -> int:
        return self._shape.rows - len(self._plain)

    def plain(self) -> range:
        """The places of the plain rows in every roll-up."""
        return range(len(self._plain))

    def rollup(
        self, ordinal: int, changed: frozenset[int] = frozenset(), level: float = 1.0, urgent_machines: float = 0.0
    ) -> list[Need]:
        """The needs of one cluster.

        Rows in `changed` ask for a little else; `level` scales all plain rows; the most important plain rows ask for
        `urgent_machines` more.
        """
        cluster = cluster_id(ordinal)
        rng = np.random.Generator(np.random.PCG64([7, ordinal]))
        sizes = 1 + _UNEVEN * (2 * rng.random(len(self._plain)) - 1)
        arrivals = np.round(rng.random(self._shape.rows) * 3600, 1).tolist()
        needs = []
        for index, row in enumerate(self._plain):
            machines = row.share * self._shape.plain_machines * float(sizes[index]) * level
            if index in changed:
                machines *= 1.02
            if row in self._urgent:
                machines += urgent_machines / len(self._urgent)
            aggregate = {name: math.ceil(machines * milli) for name, milli in row.machine.items()}
            needs.append(Need(cluster, row.profile, aggregate, row.pod, arrival=arrivals[index]))
        kinds = rng.choice(len(self._gangs), self.gangs_per_cluster, p=[row.share for row in self._gangs]).tolist()
        draws = rng.random(self.gangs_per_cluster).tolist()
        for index, (kind, draw) in enumerate(zip(kinds, draws, strict=True), len(self._plain)):
            row = self._gangs[kind]
            low, high = self._gang_pods(row.archetype)
            pods = low + int(draw * (high - low + 1))
            if index in changed:
                pods = low + (pods - low + 1) % (high - low + 1)
            needs.append(
                Need(
                    cluster,
                    row.profile,
                    self._aggregate(row, pods),
                    row.pod,
                    group=f"{RACK_KEY}\x00{cluster}-{row.archetype.name}-grp-{index}",
                    arrival=arrivals[index],
                )
            )
        return needs

    def machines_wanted(self) -> dict[str, float]:
        """Machines that the demand is expected to take, by archetype."""
        shape = self._shape
        wanted: dict[str, float] = {}
        for row in self._plain:
            name = row.archetype.name
            wanted[name] = wanted.get(name, 0.0) + shape.clusters * row.share * shape.plain_machines
        for row in self._gangs:
            low, high = self._gang_pods(row.archetype)
            gangs = shape.clusters * self.gangs_per_cluster * row.share
            per_machine = row.archetype.pods_per_machine(_DENSITY)
            # A folded class ends with a machine that is not full.
            broken = shape.clusters * (high - low + 1) / 2 if high <= per_machine else 0
            each = (low + high) / 2 / per_machine if high <= per_machine else math.ceil(high / per_machine)
            wanted[row.archetype.name] = gangs * each + broken
        return wanted

    def _gang_pods(self, archetype: Archetype) -> tuple[int, int]:
        if archetype.gang is None:
            raise ValueError(f"{archetype.name} is no gang")
        folds = archetype.gang.largest <= archetype.pods_per_machine(_DENSITY)
        return archetype.gang.group_size_range if self._shape.folds or not folds else _UNFOLDED_PODS

    def _aggregate(self, row: _Row, pods: int) -> Vector:
        """Equal gangs share one vector."""
        key = row.archetype.name, pods
        vector = self._vectors.get(key)
        if vector is None:
            vector = self._vectors[key] = scaled(row.pod, pods)
        return vector


class SyntheticFleet:
    """A shape with its machines and its demand."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._archetypes = [a for a in read_profile("5k")[1].demand if not a.burst_only]

    @cached_property
    def demand(self) -> Demand:
        return Demand(self.shape, self._archetypes)

    def machines(self) -> Iterator[Machine]:
        """All machines, none of them bound: those that are there, then those that can be bought."""
        wanted = self.demand.machines_wanted()
        whole = sum(wanted.values())
        idle = min(1 + _IDLE_HEADROOM, 0.98 * self.shape.machines / whole)
        counts = {name: math.ceil(machines * idle) for name, machines in wanted.items()}
        yield from self._tier("idle", counts)
        left = self.shape.machines - sum(counts.values())
        ends = np.floor(np.cumsum(list(wanted.values())) / whole * left + 0.5).astype(int).tolist()
        begins = [0, *ends[:-1]]
        yield from self._tier(
            "spec", {name: end - begin for name, begin, end in zip(wanted, begins, ends, strict=True)}
        )

    def _tier(self, tier: str, counts: dict[str, int]) -> Iterator[Machine]:
        is_idle = tier == "idle"
        racks = [(zone, {RACK_KEY: f"{zone}-rack-{k}"}) for k in range(RACKS_PER_ZONE) for zone in ZONES]
        for archetype in self._archetypes:
            allocatable = archetype.machine_allocatable(_DENSITY)
            types = archetype.instance_types
            for index in range(counts.get(archetype.name, 0)):
                machine_id = f"{tier}-{archetype.name}-{index}"
                zone, labels = racks[index // len(types) % len(racks)]
                yield Machine(
                    machine_id,
                    MachineState.IDLE if is_idle else MachineState.SPECULATIVE,
                    types[index % len(types)],
                    zone,
                    CapacityType.BARE_METAL if is_idle else CapacityType.ON_DEMAND,
                    0.0 if is_idle else _ON_DEMAND_USD_PER_HOUR,
                    0.0 if is_idle else _ON_DEMAND_INTERRUPTION,
                    allocatable,
                    labels,
                    f"host-{machine_id}" if is_idle else "",
                )


def _plain_rows(archetypes: Sequence[Archetype], by_zone: bool) -> Iterator[_Row]:
    for archetype in archetypes:
        if archetype.gang is not None:
            continue
        hard = archetype.spread is not None and archetype.spread.when_unsatisfiable == "DoNotSchedule"
        odds = archetype.spread.probability if hard and archetype.spread else 0.0
        for has_spread, part in ((True, odds), (False, 1 - odds)):
            if part == 0:
                continue
            share = part * float(machine_share(archetype, _DENSITY))
            if by_zone:
                for zone in archetype.zones:
                    yield _row(
                        archetype.model_copy(update={"zones": (zone,)}), has_spread, share / len(archetype.zones)
                    )
            else:
                yield _row(archetype, has_spread, share)


def _gang_rows(archetypes: Sequence[Archetype], shape: Shape) -> Iterator[_Row]:
    for archetype in archetypes:
        if archetype.gang is None or (shape.aggregated and archetype.pods_per_machine(_DENSITY) > 1):
            continue
        if not shape.folds and archetype.name == _FITS_ANOTHERS_MACHINE:
            continue
        yield _row(archetype, False, float(archetype.weight))


def _row(archetype: Archetype, has_spread: bool, share: float) -> _Row:
    size = Size(resources={name: f"{milli}m" for name, milli in archetype.largest_pod.items()})
    group = "gang" if archetype.gang else ""
    pod = pods_of(Workload("bench", archetype, 1, size, archetype.priority_classes[0], has_spread, group))
    return _Row(archetype, pod.profile, pod.resources, archetype.machine_allocatable(_DENSITY), share)


def _shared(rows: Iterator[_Row]) -> Iterator[_Row]:
    """The rows with shares that add up to 1."""
    known = list(rows)
    whole = sum(row.share for row in known)
    for row in known:
        yield _Row(row.archetype, row.profile, row.pod, row.machine, row.share / whole)

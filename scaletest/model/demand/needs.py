"""What drawn workloads need in machines, as the engine counts: one machine serves one need.

See docs/reference/engine.md#credit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bigfleet.core.vectors import ReadVector, Vector, add, covers, parse_vector, scaled
from scaletest.model.demand.draw import Draw, Ints, takes_part
from scaletest.model.demand.sizing import exact, largest_remainder
from scaletest.model.documents.catalog import Archetype
from scaletest.model.documents.profile import Burst

# As many as the largest profile that ships has; each is asked by name whether it takes part in a burst.
_ASKED_CLUSTERS_MAX = 20_000


@dataclass(frozen=True)
class DrawnNeed:
    """One row of a cluster's roll-up, and how many machines of its own shape cover it."""

    archetype: Archetype
    priority: int
    machines: int
    # One value for each of the archetype's label axes.
    axes: tuple[int, ...]
    # A gang too large for one machine: all its machines must stand in one domain.
    is_gang: bool
    # One of the drawn workloads that it is made of: a gang's only one.
    workload: int


@dataclass(frozen=True)
class DrawnDemand:
    """What all clusters need together, by archetype."""

    # Pods that exist at the full target, by archetype.
    pods_of: Mapping[str, int]
    machines: Mapping[str, int]
    # Of these, held by their cluster from the start.
    bound: Mapping[str, int]
    # On top, at the height of the largest burst.
    burst_machines: Mapping[str, int]
    # Machines that the largest gang needs in one domain.
    largest_gang: Mapping[str, int]
    # Need rows over all clusters.
    needs: int
    clusters_drawn: int

    @classmethod
    def total(cls, parts: Sequence[Self]) -> Self:
        """Of several parts of the fleet."""
        return cls(
            pods_of=_added(part.pods_of for part in parts),
            machines=_added(part.machines for part in parts),
            bound=_added(part.bound for part in parts),
            burst_machines=_added(part.burst_machines for part in parts),
            largest_gang={
                name: max(part.largest_gang.get(name, 0) for part in parts)
                for name in dict.fromkeys(name for part in parts for name in part.largest_gang)
            },
            needs=sum(part.needs for part in parts),
            clusters_drawn=sum(part.clusters_drawn for part in parts),
        )

    @property
    def pods(self) -> int:
        return sum(self.pods_of.values())

    @property
    def total_machines(self) -> int:
        return sum(self.machines.values())


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def needs_of(draw: Draw, density: int) -> list[DrawnNeed]:
    """The needs of one cluster: workloads that differ in nothing but size and name aggregate (BF-0027, BF-0041)."""
    needs: list[DrawnNeed] = []
    for index, archetype in enumerate(draw.archetypes):
        rows = np.flatnonzero(draw.archetype == index)
        if len(rows):
            needs += _needs_of_archetype(archetype, draw, rows, density)
    return needs


def _needs_of_archetype(archetype: Archetype, draw: Draw, rows: Ints, density: int) -> Iterator[DrawnNeed]:
    room = archetype.machine_allocatable(density)
    sizes = [parse_vector(size.resources) for size in archetype.pod_sizes]
    # Gangs aggregate only with gangs of the same size, plain workloads with all that have (or lack) a hard spread; a
    # mere wish is no part of a need.
    splits = archetype.spread is not None and archetype.spread.is_hard
    kind = draw.replicas[rows] if archetype.gang else (draw.has_spread[rows] & splits).astype(np.int64)
    columns = [draw.priority[rows], *draw.axes[rows, : len(archetype.label_axes)].T, kind, draw.size[rows]]
    totals: dict[tuple[int, ...], Vector] = {}
    example: dict[tuple[int, ...], int] = {}
    for (*parts, size), members in _grouped(columns):
        pods, workloads = int(draw.replicas[rows[members]].sum()), rows[members].tolist()
        key = tuple(parts)
        asked = scaled(sizes[size], pods)
        if not archetype.gang:
            totals[key] = add(totals.get(key, {}), asked)
            example.setdefault(key, workloads[0])
        elif covers(room, one := scaled(sizes[size], key[-1])):
            # Gangs that fit on one machine fold: equal ones are plain demand for such machines.
            totals[(*key, size)] = asked
            example[(*key, size)] = workloads[0]
        else:
            for workload in workloads:
                yield _need(archetype, key, machines_covering(one, room), workload, is_gang=True)
    for key, asked in totals.items():
        yield _need(archetype, key, machines_covering(asked, room), example[key], is_gang=False)


def held_at_start(needs: Sequence[DrawnNeed], fraction: float) -> list[int]:
    """How many of each need's machines its cluster holds before the first Pod exists.

    The fraction of all of them, shared out by largest remainder: among archetypes, then among an archetype's needs.
    Rounded each for itself, many small needs together would be far from the fraction.
    """
    machines: dict[str, dict[int, int]] = {}
    for index, need in enumerate(needs):
        machines.setdefault(need.archetype.name, {})[index] = need.machines
    wanted = {name: sum(mine.values()) for name, mine in machines.items()}
    held = [0] * len(needs)
    for name, number in largest_remainder(int(sum(wanted.values()) * exact(fraction)), wanted).items():
        for index, share in largest_remainder(number, machines[name]).items():
            held[index] = share
    return held


def _grouped(columns: Sequence[Ints]) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Each distinct row of the columns, with the places where it stands."""
    table = np.stack(columns, axis=1)
    order = np.lexsort(table.T[::-1])
    table = table[order]
    starts = np.flatnonzero(np.r_[True, (table[1:] != table[:-1]).any(axis=1)])
    for places in np.split(order, starts[1:]):
        yield tuple(int(column[places[0]]) for column in columns), places


def _need(archetype: Archetype, key: Sequence[int], machines: int, workload: int, *, is_gang: bool) -> DrawnNeed:
    return DrawnNeed(
        archetype=archetype,
        priority=archetype.priority_classes[key[0]],
        machines=machines,
        axes=tuple(key[1 : 1 + len(archetype.label_axes)]),
        is_gang=is_gang,
        workload=workload,
    )


def machines_covering(asked: ReadVector, room: ReadVector) -> int:
    """Machines of `room` each that together cover `asked` in every dimension."""
    return max((-(-milli // room[name]) for name, milli in asked.items() if milli > 0), default=0)


def burst_machines(
    bursts: Iterable[Burst], archetypes: Mapping[str, Archetype], clusters: range, density: int
) -> dict[str, int]:
    """Machines by archetype that the bursts take at most, if all came together, in clusters of these ordinals."""
    counts: Counter[str] = Counter()
    for burst in bursts:
        counts[burst.archetype] += machines_of_burst(burst, archetypes[burst.archetype], clusters, density)
    return dict(counts)


def machines_of_burst(burst: Burst, archetype: Archetype, clusters: range, density: int) -> int:
    """Machines that one burst takes at its height, over all of these clusters."""
    if archetype.gang:
        asked = scaled(archetype.largest_pod, archetype.gang.largest)
        each = burst.extra_target * machines_covering(asked, archetype.machine_allocatable(density))
    else:
        each = -(-burst.extra_target // archetype.pods_per_machine(density))
    return each * _participants(burst, clusters)


def _participants(burst: Burst, clusters: range) -> int:
    """Clusters that take part; of very many, the first ones speak for all."""
    if burst.selectivity in (0.0, 1.0) or not clusters:
        return len(clusters) * int(burst.selectivity)
    asked = clusters[:_ASKED_CLUSTERS_MAX]
    return round(sum(takes_part(burst, ordinal) for ordinal in asked) * len(clusters) / len(asked))


def count_demand(
    draws: Iterable[Draw], clusters: int, density: int, configured_fraction: float, bursts: Mapping[str, int]
) -> DrawnDemand:
    """Add up the needs of the drawn clusters; if fewer than `clusters` were drawn, stretched to all of them."""
    machines: Counter[str] = Counter()
    bound: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    rows = drawn = 0
    for draw in draws:
        drawn += 1
        for index, archetype in enumerate(draw.archetypes):
            pods[archetype.name] += int(draw.replicas[draw.archetype == index].sum())
        needs = needs_of(draw, density)
        for need, held in zip(needs, held_at_start(needs, configured_fraction), strict=True):
            name = need.archetype.name
            rows += 1
            machines[name] += need.machines
            bound[name] += held
            if need.is_gang:
                largest[name] = max(largest[name], need.machines)

    def stretch(count: int) -> int:
        return round(count * clusters / drawn) if drawn else 0

    return DrawnDemand(
        pods_of={name: stretch(count) for name, count in pods.items()},
        machines={name: stretch(count) for name, count in machines.items()},
        bound={name: stretch(count) for name, count in bound.items()},
        burst_machines=bursts,
        largest_gang=dict(largest),
        needs=stretch(rows),
        clusters_drawn=drawn,
    )

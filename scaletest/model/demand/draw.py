"""The demand draw: one deterministic function of (seed, cluster ordinal, catalog), shared by all.

See docs/reference/harness.md#draw.

The load-driver creates what is drawn, the plan seeds machines for it, preflight checks it: they cannot drift apart.
Columns instead of objects, because a plan of 5,000,000 Pods has to draw 240,000 workloads in less than a second.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.core.vectors import Vector, parse_vector, scaled
from scaletest.model.demand.sizing import REPLICAS, STATEFUL_CAP, mean_workload
from scaletest.model.documents.catalog import STATEFUL, Archetype, Size
from scaletest.model.documents.profile import Burst

Ints = NDArray[np.int64]
Numbers = NDArray[np.float64]

# Draws beyond the expected number, so that one batch nearly always does.
_SLACK = 64
# Random numbers per workload: archetype, size of the service, replicas in it, Pod size, priority, spread; then axes.
_COLUMNS = 6


@dataclass(frozen=True)
class Workload:
    """One Deployment or StatefulSet to be created; all its replicas are alike."""

    name: str
    archetype: Archetype
    replicas: int
    size: Size
    priority: int
    has_spread: bool
    # The gang's label value; empty for workloads that are no gang.
    group: str
    # One value for each of the archetype's label axes.
    axes: tuple[int, ...] = ()

    @property
    def stateful(self) -> bool:
        return self.archetype.name in STATEFUL

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that its axes ask for."""
        return {axis.key: axis.value(index) for axis, index in zip(self.archetype.label_axes, self.axes, strict=True)}

    @property
    def aggregate(self) -> Vector:
        """What all replicas ask for together."""
        return scaled(parse_vector(self.size.resources), self.replicas)


@dataclass(frozen=True, eq=False)
class Draw:
    """The workloads of one cluster, a column for each property; indices point into the archetype's own lists."""

    ordinal: int
    # Names the draw apart from the cluster's first one; empty for that.
    stream: str
    archetypes: tuple[Archetype, ...]
    archetype: Ints
    replicas: Ints
    size: Ints
    priority: Ints
    has_spread: NDArray[np.bool_]
    axes: Ints  # one row for each workload, padded with zeros

    def __len__(self) -> int:
        return len(self.archetype)

    @cached_property
    def pods(self) -> int:
        return int(self.replicas.sum())

    def workloads(self) -> Iterator[Workload]:
        """The same as objects."""
        return map(self.workload, range(len(self)))

    def workload(self, number: int) -> Workload:
        cluster, archetype = cluster_id(self.ordinal), self.archetypes[self.archetype[number]]
        sequence = f"{self.stream}-{number}" if self.stream else str(number)
        return Workload(
            name=f"{cluster}-{archetype.name}-{sequence}",
            archetype=archetype,
            replicas=int(self.replicas[number]),
            size=archetype.pod_sizes[self.size[number]],
            priority=archetype.priority_classes[self.priority[number]],
            has_spread=bool(self.has_spread[number]),
            group=f"{cluster}-{archetype.name}-grp-{sequence}" if archetype.gang else "",
            axes=tuple(int(value) for value in self.axes[number, : len(archetype.label_axes)]),
        )


def cluster_id(ordinal: int) -> str:
    return f"kwok-cluster-{ordinal}"


def ordinal_of(cluster: str) -> int:
    """The trailing integer of a cluster id (or pod name)."""
    return int(cluster.rpartition("-")[2])


def draw_demand(archetypes: Sequence[Archetype], target: int, seed: int, ordinal: int, stream: str = "") -> Draw:
    """The workloads of one cluster: drawn until their replicas reach `target` exactly.

    The last one is cut to what is left, except gangs: a gang that does not fit whole is not begun, and an ordinary
    workload fills the rest (a catalog of gangs only may therefore end below the target). Another `stream` is another
    draw for the same cluster.
    """
    return next(draw_clusters(archetypes, target, seed, [ordinal], stream))


def draw_clusters(
    archetypes: Sequence[Archetype], target: int, seed: int, ordinals: Iterable[int], stream: str = ""
) -> Iterator[Draw]:
    """The same for many clusters, one after the other."""
    odds = _Odds(tuple(archetype for archetype in archetypes if not archetype.burst_only))
    for ordinal in ordinals:
        yield _draw_cluster(odds, target, seed, ordinal, stream)


def takes_part(burst: Burst, ordinal: int) -> bool:
    """Whether a cluster takes part in a burst: decided by a hash, so that plan and load-driver get the same answer."""
    digest = zlib.crc32(f"{cluster_id(ordinal)}/{burst.at_seconds:g}/{burst.archetype}".encode())
    return digest < burst.selectivity * 2**32


class _Odds:
    """What a catalog's draws are made from, as arrays."""

    def __init__(self, archetypes: tuple[Archetype, ...]) -> None:
        self.archetypes = archetypes
        self.mean_replicas = float(mean_workload(archetypes))
        self.weights = self.weights_of(np.ones(len(archetypes), np.bool_))
        self.is_gang = np.array([a.gang is not None for a in archetypes])
        self.gang_low = np.array([a.gang.group_size_range[0] if a.gang else 0 for a in archetypes])
        self.gang_high = np.array([a.gang.group_size_range[1] if a.gang else 0 for a in archetypes])
        self.cap = np.array([STATEFUL_CAP if a.name in STATEFUL else REPLICAS[-1][2] for a in archetypes])
        self.service_weights = np.cumsum([row[0] for row in REPLICAS]) / sum(row[0] for row in REPLICAS)
        self.service_low = np.array([row[1] for row in REPLICAS])
        self.service_high = np.array([row[2] for row in REPLICAS])
        self.sizes = [np.cumsum([s.weight for s in a.pod_sizes]) for a in archetypes]
        self.priorities = np.array([len(a.priority_classes) for a in archetypes])
        self.spread = np.array([a.spread.probability if a.spread else 0.0 for a in archetypes])
        width = max(len(a.label_axes) for a in archetypes)
        self.axes = np.ones((len(archetypes), width))
        for row, archetype in enumerate(archetypes):
            self.axes[row, : len(archetype.label_axes)] = [axis.count for axis in archetype.label_axes]
        self.columns = _COLUMNS + width

    def weights_of(self, chosen: NDArray[np.bool_]) -> Numbers:
        """How likely each archetype is, added up, if only some may be drawn."""
        weights = np.array([a.weight for a in self.archetypes], dtype=np.float64) * chosen
        added: Numbers = np.cumsum(weights) / weights.sum()
        return added


def _draw_cluster(odds: _Odds, target: int, seed: int, ordinal: int, stream: str) -> Draw:
    source = [seed % 2**64, ordinal, *stream.encode()]
    rng = np.random.Generator(np.random.PCG64(source))
    smallest = min(a.gang.group_size_range[0] if a.gang else 1 for a in odds.archetypes)
    batches = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, odds.columns)))]
    left, weights = target, odds.weights
    while left >= smallest:
        numbers = rng.random((int(left / odds.mean_replicas * 1.1) + _SLACK, odds.columns))
        batches.append(_fitting(odds, weights, numbers, left))
        drawn = int(batches[-1][1].sum())
        left -= drawn
        if not drawn:
            # Gangs that are too large now may be a billion times as likely as what still fits.
            weights = odds.weights_of(odds.gang_low <= left)
    archetype, replicas, numbers = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return _draw_of(odds, ordinal, stream, archetype, replicas, numbers)


def _fitting(odds: _Odds, weights: Numbers, numbers: Numbers, left: int) -> tuple[Ints, Ints, Numbers]:
    """The archetypes, replicas and random numbers of those drawn that fit into `left` Pods, in order."""
    archetype = np.searchsorted(weights, numbers[:, 0], side="right")
    replicas = _replicas(odds, archetype, numbers)
    whole = int(np.searchsorted(np.cumsum(replicas), left, side="right"))
    keep = list(range(whole))
    left -= int(replicas[:whole].sum())
    for index in range(whole, len(numbers)):
        if left == 0:
            break
        if replicas[index] > left:
            if odds.is_gang[archetype[index]]:
                continue
            replicas[index] = left
        keep.append(index)
        left -= int(replicas[index])
    return archetype[keep], replicas[keep], numbers[keep]


def _replicas(odds: _Odds, archetype: Ints, numbers: Numbers) -> Ints:
    service = np.searchsorted(odds.service_weights, numbers[:, 1], side="right")
    gang = odds.is_gang[archetype]
    low = np.where(gang, odds.gang_low[archetype], odds.service_low[service])
    high = np.where(gang, odds.gang_high[archetype], odds.service_high[service])
    drawn = low + _pick(numbers[:, 2], high - low + 1)
    return np.where(gang, drawn, np.minimum(drawn, odds.cap[archetype]))


def _pick(numbers: Numbers, choices: NDArray[Any]) -> Ints:
    """One of `choices` equal ones."""
    picked: Ints = np.floor(numbers * choices).astype(np.int64)
    return picked


def _draw_of(odds: _Odds, ordinal: int, stream: str, archetype: Ints, replicas: Ints, numbers: Numbers) -> Draw:
    size = np.zeros(len(archetype), np.int64)
    for index, weights in enumerate(odds.sizes):
        mine = archetype == index
        size[mine] = np.searchsorted(weights, numbers[mine, 3] * weights[-1], side="right")
    return Draw(
        ordinal=ordinal,
        stream=stream,
        archetypes=odds.archetypes,
        archetype=archetype,
        replicas=replicas,
        size=size,
        priority=_pick(numbers[:, 4], odds.priorities[archetype]),
        has_spread=numbers[:, 5] < odds.spread[archetype],
        axes=_pick(numbers[:, _COLUMNS:], odds.axes[archetype]),
    )

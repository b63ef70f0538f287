"""What a cycle tells about needs and free capacity, made when it is first read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bigfleet.core.requirements import INSTANCE_TYPE_KEY
from bigfleet.core.vectors import Vector
from bigfleet.engine.columns.fleet import IDLE, SPECULATIVE, Fleet
from bigfleet.engine.columns.growing import Ints, Longs
from bigfleet.engine.decisions import CapacityHint, NeedView, UnmetReason
from bigfleet.engine.lazy import Lazy
from bigfleet.engine.phases.acquisition import Short
from bigfleet.engine.phases.credit import Credited, Credits
from bigfleet.engine.phases.parking import Parking
from bigfleet.engine.phases.preemption import Preemption


class Views:
    """One row per need, in order of precedence (docs/reference/wire.md#need-views). Holds the outcome."""

    def __init__(
        self, fleet: Fleet, credits: Credits, short: Short, preemption: Preemption, parking: Parking,
        ages: Mapping[str, int],
    ) -> None:  # fmt: skip
        self._fleet = fleet
        self._known: dict[int, Credited] = dict(credits.by_cluster)
        self._short = short
        self._preemption = preemption
        self._parking = parking
        self._waits = parking.waits
        self._ages = ages
        self._names = list(fleet.dimensions.names)
        self._units = list(fleet.dimensions.units)

    def sequence(self) -> Lazy[NeedView]:
        return Lazy(sum(len(known.arrangement) for known in self._known.values()), lambda: list(self._make()))

    def of(self, name: str) -> list[NeedView]:
        """The rows of one cluster: a fleet has hundreds of clusters, and each may ask for its own."""
        cluster = self._fleet.clusters.find(name)
        if cluster not in self._known:
            return []
        short = np.flatnonzero(self._short.clusters == cluster)
        numbers = dict(zip(self._short.rows[short].tolist(), short.tolist(), strict=True))
        # A cluster's rows are arranged in order of precedence.
        rows = range(len(self._known[cluster].arrangement))
        return [self._view(cluster, row, numbers.get(row)) for row in rows]

    def _make(self) -> Iterator[NeedView]:
        numbers = {
            (cluster, row): number
            for number, (cluster, row) in enumerate(
                zip(self._short.clusters.tolist(), self._short.rows.tolist(), strict=True)
            )
        }
        for cluster, row in self._in_order():
            yield self._view(cluster, row, numbers.get((cluster, row)))

    def _in_order(self) -> Iterator[tuple[int, int]]:
        if not self._known:
            return
        clusters = sorted(self._known)
        arrangements = [self._known[cluster].arrangement for cluster in clusters]
        owners = np.repeat(np.array(clusters), [len(one) for one in arrangements])
        rows = np.concatenate([np.arange(len(one)) for one in arrangements])
        order = np.lexsort(
            (
                self._fleet.clusters.ranks()[owners],
                np.concatenate([one.arrivals for one in arrangements]),
                -np.concatenate([one.priorities for one in arrangements]),
            )
        )
        yield from zip(owners[order].tolist(), rows[order].tolist(), strict=True)

    def _view(self, cluster: int, row: int, number: int | None) -> NeedView:
        known, short = self._known[cluster], self._short
        arrangement = known.arrangement
        need = arrangement.block.need(arrangement, row)
        same_key = int(self._fleet.profiles.same_keys[arrangement.profiles[row]])
        missing, claimed, domain = known.missing[row], int(known.credited[row]), int(known.domains[row])
        bootstraps = provisions = 0
        if number is not None:
            missing, claimed, domain = short.missing[number], int(short.credited[number]), int(short.domains[number])
            bootstraps, provisions = int(short.bootstraps[number]), int(short.provisions[number])
        met = not (missing > 0).any()
        waited = 0
        if same_key >= 0:
            waited = self._waits.get(need.cluster, {}).get((need.profile.fingerprint, need.group), 0)
        return NeedView(
            need=need,
            satisfied=met,
            residual={
                name: amount * unit
                for name, unit, amount in zip(self._names, self._units, missing.tolist(), strict=False)
                if amount > 0
            },
            claimed=claimed,
            bootstraps=bootstraps,
            provisions=provisions,
            same_domain=self._fleet.kinds.values[same_key].texts[domain] if domain >= 0 else "",
            same_satisfiable=bool(known.satisfiable[row]),
            parked=bool(known.parked[row]),
            parked_age_cycles=self._parking.age(waited),
            age_cycles_unmet=0 if met else self._ages.get(need.profile.fingerprint, 0),
            reason=UnmetReason.UNSPECIFIED if met or number is None else self._reason(same_key >= 0, number),
        )

    def _reason(self, is_gang: bool, number: int) -> UnmetReason:
        """The first that applies: topology, supply, preemption, priority (docs/reference/wire.md#need-views)."""
        short = self._short
        if is_gang and (short.parked[number] or short.domains[number] < 0 or not short.satisfiable[number]):
            return UnmetReason.TOPOLOGY_UNSATISFIABLE
        if not short.usable[number]:
            return UnmetReason.NO_MATCHING_SUPPLY
        if self._preemption.some_victims[number] and (self._preemption.deficits[number] > 0).any():
            return UnmetReason.PREEMPTION_EXHAUSTED
        return UnmetReason.PRIORITY_STARVED


class _Offer(NamedTuple):
    idle: int
    speculative: int
    # Of the cheapest Idle machine.
    cost_per_hour: float
    resources: Vector


class Hints:
    """For each cluster and profile that it demands, what was free at the start of the cycle.

    See docs/reference/engine.md#hints.
    """

    def __init__(self, fleet: Fleet, credits: Credits) -> None:
        self._fleet = fleet
        self._demanded: list[tuple[str, Ints]] = [
            (known.arrangement.block.cluster, known.arrangement.profiles) for known in credits.by_cluster.values()
        ]
        self._free: Longs = credits.free
        self._types = fleet.kinds.attributes[fleet.kinds.keys[INSTANCE_TYPE_KEY]]
        self._prices = fleet.kinds.costs[0]
        self._allocatable_of = fleet.kinds.allocatable_of
        self._vectors = fleet.kinds.vectors

    def sequence(self) -> Lazy[CapacityHint]:
        return Lazy(None, lambda: list(self._make()))

    def _make(self) -> Iterator[CapacityHint]:
        profiles = self._fleet.profiles
        # By profile, and by types: few types are pinned by many profiles.
        offers: dict[int, _Offer] = {}
        by_types: dict[frozenset[str] | None, _Offer] = {}
        for cluster, demanded in sorted(self._demanded, key=lambda one: one[0]):
            for number in sorted(np.unique(demanded).tolist(), key=profiles.fingerprints.__getitem__):
                profile = profiles.known[number]
                if profile is None:
                    continue
                if number not in offers:
                    pinned = profile.pinned_instance_types
                    if pinned not in by_types:
                        by_types[pinned] = self._offer(pinned)
                    offers[number] = by_types[pinned]
                idle, speculative, cost, resources = offers[number]
                yield CapacityHint(cluster, profile, idle + speculative, idle, speculative, cost, resources)

    def _offer(self, pinned: frozenset[str] | None) -> _Offer:
        """What there is of the pinned types; of all types, at no price, if none is pinned."""
        kinds = min(len(self._types), self._free.shape[1])
        free = self._free[:, :kinds]
        if pinned is not None:
            names = self._fleet.kinds.values[self._fleet.kinds.keys[INSTANCE_TYPE_KEY]]
            of_type = np.isin(self._types[:kinds], [names.find(text) for text in pinned if names.find(text) >= 0])
            free = free * of_type
        idle = free[IDLE] > 0
        cost = float(self._prices[:kinds][idle].min()) if pinned is not None and idle.any() else 0.0
        offered = np.unique(self._allocatable_of[:kinds][free.any(axis=0)]).tolist()
        least = _least([self._vectors[number] for number in offered])
        return _Offer(int(free[IDLE].sum()), int(free[SPECULATIVE].sum()), cost, least)


def _least(vectors: Sequence[Vector]) -> Vector:
    """The least of each dimension that all of them have."""
    first, *others = vectors or [{}]
    least = {name: min([amount, *(other.get(name, 0) for other in others)]) for name, amount in first.items()}
    return {name: amount for name, amount in least.items() if amount > 0}

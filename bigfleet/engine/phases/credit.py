"""Credit, remembered: which bound machine counts for which need, computed again only where something changed."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bigfleet.engine.columns.blocks import NO_GROUP, Arrangement
from bigfleet.engine.columns.fleet import CONFIGURED, CONFIGURING, Fleet
from bigfleet.engine.columns.growing import Flags, Ints, Longs
from bigfleet.engine.columns.terms import Terms
from bigfleet.engine.kernels import kernels
from bigfleet.engine.phases.parking import Parking


@dataclass(frozen=True, eq=False)
class Credited:
    """One cluster's needs after credit. Never changed once made."""

    arrangement: Arrangement
    # Of each bound machine, in keep order, Configured first: the row that it serves, −1 = none.
    holders: Ints
    configured: int
    # By row. Vectors are in the fleet's units.
    missing: Longs
    credited: Longs
    domains: Ints
    satisfiable: Flags
    parked: Flags
    # Row, term and value of each domain that has less than it must, though its row is met (ADR-26).
    lean: Ints
    # The rows that are short, or have lean domains.
    short: Ints
    # Configured machines that serve no need, in keep order.
    excess: Ints


class Credits:
    """The credit of every cluster that has reported."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.by_cluster: dict[int, Credited] = {}
        # Clusters that have short rows, excess machines, gangs, and gangs that look beyond their cluster.
        self.short: set[int] = set()
        self.excess: set[int] = set()
        self._gangs: set[int] = set()
        self._entangled: set[int] = set()
        self._folding: set[int] = set()
        self._seen = 0
        self._free_vectors: Flags = np.zeros((0, 0), np.uint8)
        self._matched = -1
        # How many machines each pool has: [Idle or Speculative, kind].
        self.free: Longs = np.zeros((2, 0), np.int64)
        self.terms = Terms.of(fleet)

    def refresh(self, parking: Parking) -> None:
        """Bring all up to date: O(clusters that changed, and those with gangs that look beyond their cluster)."""
        fleet, seen = self._fleet, self._seen
        self.terms = Terms.of(fleet)
        gone = self.by_cluster.keys() - fleet.blocks.keys()
        # What a gang is given may depend on the gangs before it, in whatever cluster.
        entangled_gone = not self._entangled.isdisjoint(gone)
        for cluster in gone:
            self._forget(cluster)
        pools_changed = fleet.pools_changed > seen or self.free.shape[1] != fleet.pools.shape[1]
        if pools_changed:
            self._count_free()
        arrangements = self._arrange(self._verdicts_due(pools_changed))
        dirty = {cluster for cluster in self._changed(fleet.slab_changed) if cluster in fleet.blocks}
        for cluster, arrangement in arrangements.items():
            known = self.by_cluster.get(cluster)
            if known is None or known.arrangement is not arrangement:
                dirty.add(cluster)
        dirty.update(cluster for cluster in map(fleet.clusters.find, parking.restamped) if cluster in fleet.blocks)
        self._seen = fleet.change

        current = {
            cluster: arrangements[cluster] if cluster in arrangements else self.by_cluster[cluster].arrangement
            for cluster in dirty
        }
        creating_changed = fleet.creating_changed > seen
        shared = pools_changed or entangled_gone or creating_changed
        if shared or any(len(a.gangs) for a in current.values()) or not self._entangled.isdisjoint(dirty):
            # Machines on their way may be any gang's.
            for cluster in (self._gangs if creating_changed else self._entangled) - dirty:
                current[cluster] = self.by_cluster[cluster].arrangement
        if current:
            self._credit(current, parking)

    def _changed(self, stamps: Longs) -> Iterable[int]:
        return np.flatnonzero(stamps > self._seen).tolist()

    def _forget(self, cluster: int) -> None:
        del self.by_cluster[cluster]
        for clusters in (self.short, self.excess, self._gangs, self._entangled, self._folding):
            clusters.discard(cluster)

    def _count_free(self) -> None:
        fleet = self._fleet
        sizes = np.append(fleet.index.sizes, 0).astype(np.int64)
        self.free = sizes[fleet.pools]

    def _verdicts_due(self, pools_changed: bool) -> set[int]:
        """The clusters whose gangs may fold otherwise than before, and those whose needs are new."""
        fleet = self._fleet
        due = {cluster for cluster in self._changed(fleet.needs_changed) if cluster in fleet.blocks}
        due.update(self._folding.intersection(self._changed(fleet.slab_changed)))
        flipped = False
        if pools_changed or self._matched != fleet.profiles.version:
            self._matched = fleet.profiles.version
            free_vectors = self._vectors_of_free_kinds()
            flipped = not np.array_equal(free_vectors, self._free_vectors)
            self._free_vectors = free_vectors
        if flipped or fleet.creating_changed > self._seen:
            due.update(self._folding)
        return due

    def _vectors_of_free_kinds(self) -> Flags:
        """[profile, vector] → whether some free machine matches the profile and has this allocatable."""
        fleet = self._fleet
        kinds, profiles, vectors = len(fleet.kinds), len(fleet.profiles), len(fleet.kinds.vectors)
        free = np.flatnonzero(self.free[:, :kinds].sum(axis=0))
        found = np.zeros((profiles, vectors), np.uint8)
        of = fleet.kinds.allocatable_of[free]
        for vector in np.unique(of).tolist():
            found[:, vector] = fleet.profiles.matches[:profiles, free[of == vector]].any(axis=1)
        return found

    def _arrange(self, due: set[int]) -> dict[int, Arrangement]:
        """The needs of these clusters after folding (docs/reference/engine.md#folding)."""
        fleet = self._fleet
        blocks = {cluster: fleet.blocks[cluster] for cluster in due}
        folding = sorted(cluster for cluster, block in blocks.items() if len(block.class_profiles))
        self._folding -= due
        self._folding.update(folding)
        none = np.zeros(0, np.bool_)
        arrangements = {
            cluster: block.arranged(none) for cluster, block in blocks.items() if cluster not in self._folding
        }
        if not folding:
            return arrangements
        starts = np.cumsum([0] + [len(blocks[cluster].class_profiles) for cluster in folding]).astype(np.int64)
        verdicts = np.zeros(int(starts[-1]), np.uint8)
        slab_starts, slab_sizes = self._slabs(folding)
        plains = np.concatenate([blocks[cluster].class_plains for cluster in folding])
        creating = np.array([fleet.creating.get((plain, NO_GROUP), -1) for plain in plains.tolist()], np.int32)
        kernels().folds(
            starts,
            np.concatenate([blocks[cluster].class_profiles for cluster in folding]),
            np.concatenate([blocks[cluster].class_values for cluster in folding]),
            creating, slab_starts, slab_sizes, fleet.index.kinds, fleet.index.starts,
            fleet.index.sizes, fleet.profiles.matches, fleet.kinds.allocatable_of, fleet.kinds.allocatable,
            self._free_vectors, verdicts,
        )  # fmt: skip
        folds = verdicts.astype(np.bool_)
        for number, cluster in enumerate(folding):
            arrangements[cluster] = blocks[cluster].arranged(folds[starts[number] : starts[number + 1]])
        return arrangements

    def _slabs(self, clusters: list[int]) -> tuple[Longs, Ints]:
        """Where the bound machines of these clusters are: [Configured or Configuring, cluster]."""
        index = self._fleet.index
        segments = self._fleet.slabs[:, clusters]
        there = segments >= 0
        return (
            np.ascontiguousarray(np.where(there, index.starts[segments], 0)),
            np.ascontiguousarray(np.where(there, index.sizes[segments], 0).astype(np.int32)),
        )

    def _credit(self, current: dict[int, Arrangement], parking: Parking) -> None:
        fleet, index = self._fleet, self._fleet.index
        kinds, profiles = fleet.kinds, fleet.profiles
        clusters = sorted(current)
        rows = [current[cluster] for cluster in clusters]
        slab_starts, slab_sizes = self._slabs(clusters)
        position_starts = np.concatenate([[0], np.cumsum(slab_sizes.sum(axis=0, dtype=np.int64))])
        row_starts = np.cumsum([0] + [len(one) for one in rows]).astype(np.int64)
        total = int(row_starts[-1])
        parked = np.zeros(total, np.uint8)
        for number, one in enumerate(rows):
            for row in parking.parked_rows(one):
                parked[row_starts[number] + row] = 1
        gangs = np.concatenate([one.gangs + row_starts[number] for number, one in enumerate(rows)]).astype(np.int32)
        owners = np.repeat(np.arange(len(rows)), [len(one.gangs) for one in rows])
        profile_of = np.concatenate([one.profiles for one in rows])
        group_of = np.concatenate([one.groups for one in rows])
        creating = np.full(total, -1, np.int32)
        own_starts = np.cumsum([0] + [len(one.own_keys) for one in rows]).astype(np.int64)
        own_keys = np.concatenate([one.own_keys for one in rows])
        own_priorities = profiles.priorities[own_keys >> 32]
        own_of = np.concatenate([one.own_of + own_starts[number] for number, one in enumerate(rows)]).astype(np.int32)
        if len(gangs):
            arrivals = np.concatenate([one.arrivals[one.gangs] for one in rows])
            priorities = np.concatenate([one.priorities[one.gangs] for one in rows])
            ranks = fleet.clusters.ranks()[np.array(clusters)][owners]
            order = np.lexsort((ranks, arrivals, -priorities))
            gangs, owners = gangs[order], owners[order]
            if fleet.creating:
                for gang in gangs.tolist():
                    creating[gang] = fleet.creating.get((int(profile_of[gang]), int(group_of[gang])), -1)
        wants = np.concatenate([one.wants for one in rows])
        missing = wants.copy()
        credited = np.zeros(total, np.int64)
        domains = np.full(total, -1, np.int32)
        satisfiable = np.zeros(total, np.uint8)
        lean = np.zeros((int(self.terms.rooms()[profile_of].sum()), 3), np.int32)
        entangled = np.zeros(len(clusters), np.uint8)
        holders = np.full(int(position_starts[-1]), -1, np.int32)
        rank_starts, value_ranks = value_order(fleet)
        n_lean = kernels().credit(
            slab_starts, slab_sizes, position_starts, row_starts, profile_of, parked,
            np.concatenate([one.units for one in rows]), wants, np.concatenate([one.pods for one in rows]),
            self.terms.starts, self.terms.keys, self.terms.skews, creating, gangs, owners.astype(np.int32), own_starts,
            own_keys, own_priorities, own_of, index.rows, index.kinds, index.starts, index.sizes, index.owners,
            profiles.matches, kinds.allocatable_of, kinds.allocatable, kinds.attributes,
            profiles.same_keys, profiles.buckets, kinds.costs, fleet.ids.labels, fleet.pools,
            profiles.kind_starts, profiles.kind_lists, fleet.dimensions.by_name(),
            self.free.sum(axis=0), rank_starts, value_ranks, missing, credited, domains, holders, satisfiable,
            lean, entangled,
        )  # fmt: skip
        is_short = np.asarray((missing > 0).any(axis=1))
        lean = lean[:n_lean][np.argsort(lean[:n_lean, 0], kind="stable")]
        is_short[lean[:, 0]] = True
        lean_starts = np.searchsorted(lean[:, 0], row_starts)
        for number, cluster in enumerate(clusters):
            first, last = int(row_starts[number]), int(row_starts[number + 1])
            held = holders[position_starts[number] : position_starts[number + 1]].copy()
            configured = int(slab_sizes[CONFIGURED, number])
            start = int(slab_starts[CONFIGURED, number])
            excess = index.rows[start : start + configured][held[:configured] < 0]
            short = np.flatnonzero(is_short[first:last]).astype(np.int32)
            self.by_cluster[cluster] = Credited(
                rows[number], held, configured, missing[first:last].copy(), credited[first:last].copy(),
                domains[first:last].copy(), satisfiable[first:last].copy(), parked[first:last].copy(),
                lean[lean_starts[number] : lean_starts[number + 1]] - np.array([first, 0, 0], np.int32), short, excess,
            )  # fmt: skip
            for clusters_with, has in (
                (self.short, len(short)),
                (self.excess, len(excess)),
                (self._gangs, len(rows[number].gangs)),
                (self._entangled, entangled[number]),
            ):
                (clusters_with.add if has else clusters_with.discard)(cluster)

    def held_kinds(self, cluster: int, row: int) -> Ints:
        """The kinds of the bound machines that serve a row."""
        index = self._fleet.index
        known = self.by_cluster[cluster]
        positions = np.flatnonzero(known.holders == row)
        starts = []
        for state in (CONFIGURED, CONFIGURING):
            segment = int(self._fleet.slabs[state, cluster])
            starts.append(int(index.starts[segment]) if segment >= 0 else 0)
        places = np.where(positions < known.configured, starts[0] + positions, starts[1] + positions - known.configured)
        return index.kinds[places]


def value_order(fleet: Fleet) -> tuple[Longs, Ints]:
    """The rank of each attribute value in the order of texts: those of key k are ranks[starts[k]:starts[k + 1]]."""
    ranks = [names.ranks() for names in fleet.kinds.values]
    return np.cumsum([0] + [len(one) for one in ranks]).astype(np.int64), np.concatenate(ranks).astype(np.int32)

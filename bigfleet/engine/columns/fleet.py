"""The fleet: machines and needs in columns, with indexes kept up to date by every change."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np

from bigfleet.core.machines import Assignment, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.vectors import ReadVector
from bigfleet.engine.columns.blocks import Block
from bigfleet.engine.columns.dimensions import Dimensions
from bigfleet.engine.columns.growing import Flags, Floats, Ints, Longs, grown
from bigfleet.engine.columns.identities import RowIds
from bigfleet.engine.columns.index import NO_BUCKET, NOWHERE, Index
from bigfleet.engine.columns.kinds import Kinds
from bigfleet.engine.columns.names import Names
from bigfleet.engine.columns.profiles import Profiles, keys_of
from bigfleet.engine.columns.texts import Texts

IDLE, SPECULATIVE = 0, 1
CONFIGURED, CONFIGURING = 0, 1
_FREE = {int(MachineState.IDLE): IDLE, int(MachineState.SPECULATIVE): SPECULATIVE}
_BOUND = {int(MachineState.CONFIGURED): CONFIGURED, int(MachineState.CONFIGURING): CONFIGURING}
_CREATING = int(MachineState.CREATING)
_DRAINING = int(MachineState.DRAINING)
_IDLE_STATE = int(MachineState.IDLE)
_CONFIGURED_STATE = int(MachineState.CONFIGURED)
_STATES = list(MachineState)
_PROFILE, _GROUP = 0, 1
# The state of a row whose machine is gone but whose id is kept, and of a row that no machine has.
_GONE = 254
_UNUSED = 255
# Rows of gone machines are freed when there are more than this, and more than a quarter of all.
_MANY_GONE = 1024
# Stands for the machine's own id in a stored host …
_OWN_ID = "\x00"
# … unless the host begins with this: then the rest is the host as it was given.
_AS_GIVEN = "\x01"


class Fleet:
    """The state a cycle decides on."""

    def __init__(self) -> None:
        self.dimensions = Dimensions()
        self.kinds = Kinds(self.dimensions)
        self.profiles = Profiles(self.kinds)
        self.ids = RowIds()
        self.clusters = Names()
        self.groups = Texts(empty=True)
        self.index = Index()
        # Machine columns, by row.
        self.states: Flags = np.full(0, _UNUSED, np.uint8)
        self.kind_of: Ints = np.zeros(0, np.int32)
        self.cluster_of: Ints = np.zeros(0, np.int32)
        self.terms_of: Ints = np.zeros(0, np.int32)
        # The demand that owns the machine: profile and group.
        self.owner_of: Ints = np.zeros((0, 2), np.int32)
        self.idle_since: Floats = np.full(0, math.nan)
        self._labels_of: Ints = np.zeros(0, np.int32)
        self._host_of: Ints = np.zeros(0, np.int32)
        self._errors: dict[int, str] = {}
        self._label_sets = Texts(empty=True)
        self._hosts = Texts(empty=True)
        # Assigned (priority, interruption $, reclamation $), interned; how many Configured machines have each.
        self.terms: list[tuple[int, float, float]] = []
        self.configured_by_terms: Longs = np.zeros(4, np.int64)
        self.reclamations: Floats = np.zeros(4)
        self._term_numbers: dict[tuple[int, float, float], int] = {}
        # Segments: [Idle or Speculative, kind], [Configured or Configuring, cluster], Creating by (profile, group).
        self.pools: Ints = np.full((2, 64), NOWHERE, np.int32)
        self.slabs: Ints = np.full((2, 16), NOWHERE, np.int32)
        self.creating: dict[tuple[int, int], int] = {}
        self.draining = self.index.new_segment()
        self._unused_segments: list[int] = []
        # Needs by cluster; a cluster that has not reported has none.
        self.blocks: dict[int, Block] = {}
        # What changed, as growing numbers: the last change at all, of the pools, of Creating, and of each cluster.
        self.change = 1
        self.pools_changed = 0
        self.creating_changed = 0
        self.slab_changed: Longs = np.zeros(16, np.int64)
        self.needs_changed: Longs = np.zeros(16, np.int64)
        # No Idle machine that came since the engine last looked is older than this.
        self.oldest_idle = math.inf
        self._machines = 0
        self._gone = 0

    # --- machines -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._machines

    def __contains__(self, machine_id: object) -> bool:
        return isinstance(machine_id, str) and self._row(machine_id) >= 0

    def __iter__(self) -> Iterator[str]:
        for row in np.flatnonzero(self.states < _GONE).tolist():
            yield self.ids.texts.text(row)

    def _row(self, machine_id: str) -> int:
        row = self.ids.row(machine_id)
        return row if row >= 0 and self.states[row] < _GONE else -1

    def put(self, machine: Machine, idle_since: float | None = None) -> None:
        """Insert or replace. `idle_since` counts for Idle machines only; without it one is never released."""
        vector = self.kinds.vector_number(machine.allocatable)
        if vector < 0:
            self._admit([machine.allocatable])
            vector = self.kinds.add_vector(machine.allocatable)
        kind = self.kinds.of(machine, vector)
        row = self.ids.row(machine.id)
        if row < 0:
            row = self._new_row(machine.id)
        was = int(self.states[row])
        if was == _GONE:
            self._machines += 1
            self._gone -= 1
        state = int(machine.state)
        if state == _IDLE_STATE:
            self._stamp(row, idle_since)
        elif was == _IDLE_STATE:
            self.idle_since[row] = math.nan
        self._describe(row, machine)

        assigned = machine.assignment
        cluster = self._cluster(machine.cluster)
        terms = self._terms(assigned)
        profile = self.profiles.number(assigned.fingerprint)
        group = self._regroup(row, assigned.group)
        if (
            state == was
            and kind == self.kind_of[row]
            and cluster == self.cluster_of[row]
            and terms == self.terms_of[row]
            and profile == self.owner_of[row, _PROFILE]
            and not group
        ):
            return
        self._leave(row, was)
        if kind != self.kind_of[row] or was == _GONE:
            if was != _GONE:
                self.kinds.machines[self.kind_of[row]] -= 1
            self.kinds.machines[kind] += 1
            self.kind_of[row] = kind
        self.states[row] = state
        self.cluster_of[row] = cluster
        self.terms_of[row] = terms
        self.owner_of[row, _PROFILE] = profile
        self._enter(row, state)

    def remove(self, machine_id: str) -> None:
        """Unknown ids are ignored."""
        row = self._row(machine_id)
        if row < 0:
            return
        self._leave(row, int(self.states[row]))
        self.index.move(row, NOWHERE)
        self.kinds.machines[self.kind_of[row]] -= 1
        self.states[row] = _GONE
        self.idle_since[row] = math.nan
        self._errors.pop(row, None)
        self._machines -= 1
        self._gone += 1
        if self._gone > _MANY_GONE and self._gone > len(self.states) // 4:
            self._forget_gone()

    def get(self, machine_id: str) -> Machine | None:
        """The machine, made on demand."""
        row = self._row(machine_id)
        if row < 0:
            return None
        base = self.kinds.bases[self.kind_of[row]]
        priority, interruption, reclamation = self.terms[self.terms_of[row]]
        labels = self._label_sets.text(self._labels_of[row])
        return Machine(
            machine_id,
            _STATES[self.states[row]],
            base.instance_type,
            base.zone,
            base.capacity_type,
            base.price_per_hour,
            base.interruption_probability,
            dict(self.kinds.vectors[base.allocatable]),
            msgspec.json.decode(labels, type=dict[str, str]) if labels else {},
            _host(self._hosts.text(self._host_of[row]), machine_id),
            self.clusters.texts[self.cluster_of[row]],
            self._errors.get(row, ""),
            Assignment(
                priority,
                interruption,
                reclamation,
                self.profiles.fingerprints[self.owner_of[row, _PROFILE]],
                self.groups.text(self.owner_of[row, _GROUP]),
            ),
        )

    def idle_stamp(self, machine_id: str) -> float | None:
        """Since when a machine is Idle; None if it is not, or if the time is unknown."""
        row = self._row(machine_id)
        stamp = self.idle_since[row] if row >= 0 else math.nan
        return None if math.isnan(stamp) else float(stamp)

    def _new_row(self, machine_id: str) -> int:
        row = self.ids.add(machine_id)
        if row >= len(self.states):
            self.states = grown(self.states, row + 1, _UNUSED)
            for name in ("kind_of", "cluster_of", "terms_of", "owner_of", "_labels_of", "_host_of"):
                setattr(self, name, grown(getattr(self, name), row + 1))
            self.idle_since = grown(self.idle_since, row + 1, math.nan)
            self.index.make_room(len(self.states))
        self._labels_of[row] = self._host_of[row] = self.owner_of[row, _GROUP] = 0
        self.states[row] = _GONE
        self._gone += 1
        return row

    def _stamp(self, row: int, idle_since: float | None) -> None:
        if idle_since is None:
            self.idle_since[row] = math.nan
        elif self.idle_since[row] != idle_since:
            self.idle_since[row] = idle_since
            self.oldest_idle = min(self.oldest_idle, idle_since)
            self.change += 1

    def _describe(self, row: int, machine: Machine) -> None:
        """What only `get` reads: labels, host, error."""
        text = msgspec.json.encode(machine.labels, order="sorted").decode() if machine.labels else ""
        labels = self._label_sets.hold(text)
        self._label_sets.drop(self._labels_of[row])
        self._labels_of[row] = labels
        host = self._hosts.hold(_stored_host(machine))
        self._hosts.drop(self._host_of[row])
        self._host_of[row] = host
        if machine.last_error:
            self._errors[row] = machine.last_error
        elif self._errors:
            self._errors.pop(row, None)

    def _regroup(self, row: int, group: str) -> bool:
        """Whether the group changed."""
        number = self.groups.hold(group)
        before = int(self.owner_of[row, _GROUP])
        self.groups.drop(before)
        self.owner_of[row, _GROUP] = number
        return number != before

    def _terms(self, assigned: Assignment) -> int:
        key = assigned.priority, assigned.interruption_dollars, assigned.reclamation_dollars
        number = self._term_numbers.get(key)
        if number is None:
            number = self._term_numbers[key] = len(self.terms)
            self.terms.append(key)
            self.configured_by_terms = grown(self.configured_by_terms, number + 1)
            self.reclamations = grown(self.reclamations, number + 1)
            self.reclamations[number] = assigned.reclamation_dollars
        return number

    def _cluster(self, name: str) -> int:
        cluster = self.clusters.number(name)
        if cluster >= self.slabs.shape[1] or cluster >= len(self.slab_changed):
            self.slabs = grown(self.slabs, cluster + 1, NOWHERE, axis=1)
            self.slab_changed = grown(self.slab_changed, self.slabs.shape[1])
            self.needs_changed = grown(self.needs_changed, self.slabs.shape[1])
        return cluster

    def _leave(self, row: int, state: int) -> None:
        """The machine as it was goes out of what the engine knows."""
        self.change += 1
        if state in _FREE:
            self.pools_changed = self.change
        elif state in _BOUND:
            self.slab_changed[self.cluster_of[row]] = self.change
            if state == _CONFIGURED_STATE:
                self.configured_by_terms[self.terms_of[row]] -= 1
        elif state == _CREATING:
            self.creating_changed = self.change

    def _enter(self, row: int, state: int) -> None:
        self.change += 1
        segment = NOWHERE
        if state in _FREE:
            self.pools_changed = self.change
            segment = self._pool(_FREE[state], int(self.kind_of[row]))
        elif state in _BOUND:
            cluster = int(self.cluster_of[row])
            self.slab_changed[cluster] = self.change
            if state == _CONFIGURED_STATE:
                self.configured_by_terms[self.terms_of[row]] += 1
            segment = self._slab(_BOUND[state], cluster)
        elif state == _CREATING:
            self.creating_changed = self.change
            segment = self._creating_for(int(self.owner_of[row, _PROFILE]), int(self.owner_of[row, _GROUP]))
        elif state == _DRAINING:
            segment = self.draining
        self.index.move(row, segment)

    # --- segments -----------------------------------------------------------------------------------------------

    def _pool(self, state: int, kind: int) -> int:
        if kind >= self.pools.shape[1]:
            self.pools = grown(self.pools, kind + 1, NOWHERE, axis=1)
        segment = int(self.pools[state, kind])
        if segment == NOWHERE:
            segment = self.pools[state, kind] = self.index.new_segment()
        return int(segment)

    def _slab(self, state: int, cluster: int) -> int:
        segment = int(self.slabs[state, cluster])
        if segment == NOWHERE:
            segment = self.slabs[state, cluster] = self.index.new_segment(bucket=0, by_penalty=True)
        return int(segment)

    def _creating_for(self, profile: int, group: int) -> int:
        segment = self.creating.get((profile, group))
        if segment is None:
            bucket = int(self.profiles.buckets[profile])
            if self._unused_segments:
                segment = self._unused_segments.pop()
                self.index.buckets[segment] = bucket
            else:
                segment = self.index.new_segment(bucket)
            self.creating[profile, group] = segment
            # The segment's key must outlive its machines.
            self.groups.hold(self.groups.text(group))
        return segment

    def settle(self) -> None:
        """Bring every index up to date with the changes since the last time."""
        self.ids.settle()
        self.profiles.settle()
        kinds = len(self.kinds)
        if kinds > self.pools.shape[1]:
            self.pools = grown(self.pools, kinds, NOWHERE, axis=1)
        if self.index.settled:
            return
        self.index.settle(
            self.kind_of, self.owner_of, self.ids.labels, self.kinds.costs, self.terms_of, self.reclamations
        )
        for key in [key for key, segment in self.creating.items() if not self.index.sizes[segment]]:
            self._unused_segments.append(self.creating.pop(key))
            self.groups.drop(key[1])

    def _forget_gone(self) -> None:
        self.settle()
        rows = np.flatnonzero(self.states == _GONE).astype(np.int32)
        self.states[rows] = _UNUSED
        for row in rows.tolist():
            self._label_sets.drop(int(self._labels_of[row]))
            self._hosts.drop(int(self._host_of[row]))
            self.groups.drop(int(self.owner_of[row, _GROUP]))
        self.ids.forget(rows)
        self._gone = 0

    def _admit(self, vectors: Iterable[ReadVector]) -> None:
        factors = self.dimensions.admit(vectors)
        if factors is None:
            return
        self.kinds.rescale(factors)
        self.change += 1
        for cluster, block in self.blocks.items():
            block.rescale(self.dimensions.width, factors)
            self.needs_changed[cluster] = self.change

    def _refer(self, keys: Iterable[str]) -> None:
        """Tell machines apart by these attributes too."""
        fresh = [key for key in keys if self.kinds.refer(key)]
        if not fresh:
            return
        rows = np.flatnonzero(self.states < _GONE)
        pairs = self.kind_of[rows].astype(np.int64) << 32 | self._labels_of[rows]
        distinct, which = np.unique(pairs, return_inverse=True)
        finer = []
        for pair in distinct.tolist():
            labels = self._label_sets.text(pair & 0xFFFFFFFF)
            known = msgspec.json.decode(labels, type=dict[str, str]) if labels else {}
            finer.append(self.kinds.intern(self.kinds.bases[pair >> 32], known))
        self.kind_of[rows] = np.array(finer, np.int32)[which]
        self.kinds.machines[:] = 0
        np.add.at(self.kinds.machines, self.kind_of[rows], 1)
        for row in rows.tolist():
            state = int(self.states[row])
            if state in _FREE:
                self.index.move(row, self._pool(_FREE[state], int(self.kind_of[row])))
            elif self.index.home[row] != NOWHERE:
                self.index.move(row, int(self.index.home[row]))
        self.change += 1
        self.pools_changed = self.creating_changed = self.change
        self.slab_changed[:] = self.change

    # --- needs --------------------------------------------------------------------------------------------------

    def replace_needs(self, cluster: str, needs: Sequence[Need], rows: Collection[int] | None = None) -> None:
        """A whole roll-up, even an empty one: from then on the cluster has reported.

        `rows`, if given, are all in which it differs from the cluster's last one: the others are not looked at again.
        """
        number = self._cluster(cluster)
        before = self.blocks.get(number)
        if before is None:
            rows = None
        looked_at = needs if rows is None else [needs[row] for row in rows]
        # Rows often share their profile and their vectors: each is looked at once.
        profiles = {id(need.profile): need.profile for need in looked_at}.values()
        self._refer({key for profile in profiles for key in keys_of(profile)})
        vectors = {id(vector): vector for need in looked_at for vector in (need.aggregate, need.min_unit)}
        self._admit(vectors.values())
        for profile in profiles:
            if not self.profiles.is_known(profile.fingerprint):
                learnt = self.profiles.learn(profile)
                for each in {learnt, self.profiles.plain[learnt]}:
                    self._reorder_creating(each)
        block = None if before is None or rows is None else before.amended(needs, rows)
        if block is None:
            block = Block(cluster, needs, self.dimensions, self.profiles, self.groups)
            if before is not None:
                block.expect(before)
                before.release(self.groups)
        self.blocks[number] = block
        self.change += 1
        self.needs_changed[number] = self.change

    def forget_needs(self, cluster: str) -> None:
        """As if it had never reported."""
        number = self.clusters.find(cluster)
        block = self.blocks.pop(number, None)
        if block is not None:
            block.release(self.groups)
            self.change += 1
            self.needs_changed[number] = self.change

    def _reorder_creating(self, profile: int) -> None:
        """Machines were being created for a profile before a need said what it is."""
        for (number, _group), segment in self.creating.items():
            if number == profile:
                self.index.reorder(segment, int(self.profiles.buckets[profile]))


__all__ = ["CONFIGURED", "CONFIGURING", "IDLE", "NO_BUCKET", "SPECULATIVE", "Fleet"]


def _stored_host(machine: Machine) -> str:
    """A host is often named after its machine: without the id such hosts are all one text."""
    host = machine.host
    return _AS_GIVEN + host if _OWN_ID in host or host.startswith(_AS_GIVEN) else host.replace(machine.id, _OWN_ID)


def _host(stored: str, machine_id: str) -> str:
    return stored[1:] if stored.startswith(_AS_GIVEN) else stored.replace(_OWN_ID, machine_id)

"""All machines of a provider, and the log of their changes that incremental List reads."""

import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.kit.entries import Lives, MachineEntry, Removed, ShapeEntry
from bigfleet.provider.kit.errors import InvalidArgument, UnknownMachine
from bigfleet.provider.kit.records import MachineRecord, Shape
from bigfleet.provider.kit.store import RecordStore
from bigfleet.provider.kit.transitions import Kind

_LONGEST_CURSOR = 24
# Older tombstones are forgotten, and with them the cursors that would need them.
_MOST_TOMBSTONES = 10_000
_MOST_LIVES = 32
# Changes that may lie about before a small inventory forgets those that are not the last.
_SPARE_CHANGES = 1000

InventoryEntry = Lives | ShapeEntry | MachineEntry | Removed


@dataclass(frozen=True)
class ListAnswer:
    """One answer of List: a consistent snapshot, oldest change first."""

    records: list[MachineRecord]
    removed_ids: list[str]
    revision: bytes
    restarted: bool
    """The cursor meant nothing to us, so the answer starts from nothing."""
    more: bool
    """The page was cut; the rest follows its revision."""


class ProviderInventory:
    """Records by id, by state and by the order of their last change.

    The revision is a decimal counter, opaque to callers. Every life of the provider starts its own stretch of it at
    the wall clock in nanoseconds, or above what was used before. A cursor is good when it lies in a stretch whose
    changes are all known: one that a crash has swallowed, or that was given out by a copy of the state directory
    which is no more, lies between two stretches and is answered by a full list, never by a delta that skips changes.
    """

    def __init__(self, store: RecordStore, wall_clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._wall_clock_ns = wall_clock_ns
        self._records: dict[str, MachineRecord] = {}
        # Last change of each id, oldest first; an id without a record is a tombstone.
        self._log: dict[str, int] = {}
        # All changes side by side, to find a cursor's place at once; those that are not an id's last are passed over.
        self._changes: list[int] = []
        self._changed: list[str] = []
        self._tombstones: dict[str, None] = {}
        # Last change of zone or labels, of machines that had one.
        self._moved: dict[str, int] = {}
        self._by_state: dict[MachineState, set[str]] = {state: set() for state in MachineState}
        # The numbers under which shapes are on disk.
        self._shapes: dict[Shape, int] = {}
        self._revision = 0
        self._lives: list[tuple[int, int]] = []

    def start(self) -> None:
        """Begin a life; call it once, after whatever is restored."""
        if self._lives:
            self._lives[-1] = (self._lives[-1][0], self._revision)
        self._revision = max(self._revision + 1, self._wall_clock_ns())
        self._lives = [*self._lives[1 - _MOST_LIVES :], (self._revision, self._revision)]
        self._store.stage(Lives(self._lives))

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, machine_id: object) -> bool:
        return machine_id in self._records

    def get(self, machine_id: str) -> MachineRecord:
        """The machine; raises UnknownMachine."""
        record = self._records.get(machine_id)
        if record is None:
            raise UnknownMachine(machine_id)
        return record

    def ids(self, state: MachineState) -> Collection[str]:
        """Ids of the machines in `state`, in no order; valid until the next change."""
        return self._by_state[state]

    def removed(self, machine_id: str) -> bool:
        """Whether the machine was here and was taken out."""
        return machine_id in self._tombstones

    def put(self, record: MachineRecord) -> MachineRecord:
        """Add or replace a machine."""
        before = self._records.get(record.id)
        self._place(record)
        revision = self._touch(record.id)
        if before is not None and before.shape is not record.shape and not _same_place(before.shape, record.shape):
            self._moved[record.id] = revision
        self._store.stage(_entry(record, revision, self._moved.get(record.id, 0), self._number(record.shape)))
        return record

    def remove(self, machine_id: str) -> None:
        """Take a machine out of the inventory; deltas carry its tombstone."""
        self.get(machine_id)
        self._take_out(machine_id)
        self._store.stage(Removed(machine_id, self._touch(machine_id)))
        self._bury(machine_id)

    def page(
        self,
        since: bytes = b"",
        states: Collection[MachineState] = (),
        limit: int = 0,
        owned: Callable[[MachineRecord], bool] | None = None,
    ) -> ListAnswer:
        """What changed after the cursor `since`, or everything when it is empty or not one of ours.

        Only machines now in `states` (all, when empty) and `owned` by the caller, and at most `limit` of them (no
        cap, when 0): asking again with the page's revision continues where it was cut.
        """
        if limit < 0:
            raise InvalidArgument(f"max_results is {limit}, it must not be negative")
        cursor = self._cursor(since)
        records: list[MachineRecord] = []
        removed: list[str] = []
        revision, more = self._revision, False
        for machine_id in self._changed_after(cursor):
            record = self._records.get(machine_id)
            if record is None:
                if cursor is not None:
                    removed.append(machine_id)
            elif owned is not None and not owned(record):
                if cursor is not None and self._moved.get(machine_id, 0) > cursor:
                    removed.append(machine_id)  # it may have been the caller's before
            elif not states or record.state in states:
                if limit and len(records) == limit:
                    revision, more = self._log[records[-1].id], True
                    removed = [gone for gone in removed if self._log[gone] < revision]
                    break
                records.append(record)
        return ListAnswer(records, removed, b"%d" % revision, restarted=cursor is None and since != b"", more=more)

    # --- on disk ------------------------------------------------------------------------------------------------

    def restore(self, entry: MachineEntry | Removed | Lives, shapes: dict[int, Shape]) -> None:
        """Take in one entry of a former life, in the order in which they were made."""
        match entry:
            case Lives():
                self._lives = list(entry.stretches)
                self._revision = max(self._revision, self._lives[-1][1])
            case MachineEntry():
                self._place(_record(entry, shapes[entry.shape]))
                self._relog(entry.id, entry.revision)
                if entry.moved:
                    self._moved[entry.id] = entry.moved
            case Removed():
                self._take_out(entry.id)
                self._relog(entry.id, entry.revision)
                self._bury(entry.id)

    def entries(self) -> Iterator[InventoryEntry]:
        """Everything as it is at this moment: what is captured here is never changed later."""
        records, log, moved = dict(self._records), dict(self._log), dict(self._moved)
        self._shapes = {}
        for record in records.values():
            self._number(record.shape, stage=False)
        shapes = dict(self._shapes)
        lives = Lives([*self._lives[:-1], (self._lives[-1][0], self._revision)])

        def write() -> Iterator[InventoryEntry]:
            for shape, number in shapes.items():
                yield _shape_entry(number, shape)
            for machine_id, revision in log.items():
                record = records.get(machine_id)
                if record is None:
                    yield Removed(machine_id, revision)
                else:
                    yield _entry(record, revision, moved.get(machine_id, 0), shapes[record.shape])
            yield lives

        return write()

    def _number(self, shape: Shape, *, stage: bool = True) -> int:
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self._shapes)
            if stage:
                self._store.stage(_shape_entry(number, shape))
        return number

    # --- indexes ------------------------------------------------------------------------------------------------

    def _place(self, record: MachineRecord) -> None:
        known = self._records.get(record.id)
        if known is not None:
            self._by_state[known.state].discard(record.id)
        self._records[record.id] = record
        self._by_state[record.state].add(record.id)
        self._tombstones.pop(record.id, None)

    def _take_out(self, machine_id: str) -> None:
        known = self._records.pop(machine_id, None)
        if known is not None:
            self._by_state[known.state].discard(machine_id)
        self._moved.pop(machine_id, None)

    def _bury(self, machine_id: str) -> None:
        self._tombstones.pop(machine_id, None)
        self._tombstones[machine_id] = None
        if len(self._tombstones) > _MOST_TOMBSTONES:
            oldest = next(iter(self._tombstones))
            del self._tombstones[oldest]
            floor = self._log.pop(oldest)
            *ended, (first, last) = self._lives
            self._lives = [(max(start, floor), end) for start, end in ended if end >= floor]
            self._lives.append((max(first, floor), last))

    def _touch(self, machine_id: str) -> int:
        self._relog(machine_id, self._revision + 1)
        return self._revision

    def _relog(self, machine_id: str, revision: int) -> None:
        self._revision = revision
        self._log.pop(machine_id, None)
        self._log[machine_id] = revision
        self._changes.append(revision)
        self._changed.append(machine_id)
        if len(self._changes) > 2 * len(self._log) + _SPARE_CHANGES:
            self._changes, self._changed = list(self._log.values()), list(self._log)

    def _cursor(self, since: bytes) -> int | None:
        if not since.isdigit() or len(since) > _LONGEST_CURSOR:
            return None
        cursor = int(since)
        *ended, (first, _) = self._lives
        if first <= cursor <= self._revision or any(start <= cursor <= last for start, last in ended):
            return cursor
        return None

    def _changed_after(self, cursor: int | None) -> Iterator[str]:
        """Ids in the order of their last change; all of them without a cursor."""
        start = 0 if cursor is None else bisect_right(self._changes, cursor)
        for index in range(start, len(self._changes)):
            machine_id = self._changed[index]
            if self._log.get(machine_id) == self._changes[index]:
                yield machine_id


def _same_place(one: Shape, other: Shape) -> bool:
    return one.zone == other.zone and one.instance_type == other.instance_type and one.labels == other.labels


def shape_of(entry: ShapeEntry) -> Shape:
    return Shape(
        instance_type=entry.instance_type,
        zone=entry.zone,
        capacity_type=CapacityType(entry.capacity_type),
        price_per_hour=entry.price_per_hour,
        interruption_probability=entry.interruption_probability,
        allocatable=entry.allocatable,
        labels=entry.labels,
    )


def _shape_entry(number: int, shape: Shape) -> ShapeEntry:
    return ShapeEntry(
        number=number,
        instance_type=shape.instance_type,
        zone=shape.zone,
        capacity_type=int(shape.capacity_type),
        price_per_hour=shape.price_per_hour,
        interruption_probability=shape.interruption_probability,
        allocatable=dict(shape.allocatable),
        labels=dict(shape.labels),
    )


def _entry(record: MachineRecord, revision: int, moved: int, shape: int) -> MachineEntry:
    return MachineEntry(
        id=record.id,
        revision=revision,
        moved=moved,
        shape=shape,
        state=int(record.state),
        host=record.host,
        cluster=record.cluster,
        metadata=dict(record.metadata),
        last_error=record.last_error,
        failed_in=record.failed_in or "",
        operation=record.operation,
    )


def _record(entry: MachineEntry, shape: Shape) -> MachineRecord:
    return MachineRecord(
        id=entry.id,
        shape=shape,
        state=MachineState(entry.state),
        host=entry.host,
        cluster=entry.cluster,
        metadata=entry.metadata,
        last_error=entry.last_error,
        failed_in=Kind(entry.failed_in) if entry.failed_in else None,
        operation=entry.operation,
    )

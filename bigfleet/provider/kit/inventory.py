"""All machines of a provider, and the log of their changes that incremental List reads."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from bigfleet.core.machines import MachineState
from bigfleet.provider.kit.errors import InvalidArgument, UnknownMachine
from bigfleet.provider.kit.records import MachineRecord

_LONGEST_CURSOR = 24


@dataclass(frozen=True)
class Page:
    """One answer of List: a consistent snapshot, oldest change first."""

    records: list[MachineRecord]
    removed_ids: list[str]
    revision: bytes
    restarted: bool
    """The cursor meant nothing to us, so the answer starts from nothing."""


class Inventory:
    """Records by id, by state and by the order of their last change.

    The revision is a decimal counter. It starts at the wall clock in nanoseconds, so a cursor from before a restart
    lies below the first revision and is answered by a full list, never by a delta that skips changes.
    """

    def __init__(self, wall_clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._first = self._revision = wall_clock_ns()
        self._records: dict[str, MachineRecord] = {}
        # Last change of each id, oldest first; an id without a record is a tombstone.
        self._log: dict[str, int] = {}
        self._by_state: dict[MachineState, set[str]] = {state: set() for state in MachineState}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, machine_id: str) -> MachineRecord:
        """The machine; raises UnknownMachine."""
        record = self._records.get(machine_id)
        if record is None:
            raise UnknownMachine(machine_id)
        return record

    def ids(self, state: MachineState) -> Collection[str]:
        """Ids of the machines in `state`, in no order; valid until the next change."""
        return self._by_state[state]

    def put(self, record: MachineRecord) -> MachineRecord:
        """Add or replace a machine."""
        self._forget_state(record.id)
        self._records[record.id] = record
        self._by_state[record.state].add(record.id)
        self._touch(record.id)
        return record

    def remove(self, machine_id: str) -> None:
        """Take a machine out of the inventory; deltas carry its tombstone."""
        self.get(machine_id)
        self._forget_state(machine_id)
        del self._records[machine_id]
        self._touch(machine_id)

    def page(self, since: bytes = b"", states: Collection[MachineState] = (), limit: int = 0) -> Page:
        """What changed after the cursor `since`, or everything when it is empty or not one of ours.

        Only machines now in `states` (all, when empty), and at most `limit` of them (no cap, when 0): asking again
        with the page's revision continues where it was cut.
        """
        if limit < 0:
            raise InvalidArgument(f"max_results is {limit}, it must not be negative")
        cursor = self._cursor(since)
        ids = list(self._log) if cursor is None else self._changed_after(cursor)
        records: list[MachineRecord] = []
        removed: list[str] = []
        revision = self._revision
        for machine_id in ids:
            record = self._records.get(machine_id)
            if record is None:
                if cursor is not None:
                    removed.append(machine_id)
            elif not states or record.state in states:
                if limit and len(records) == limit:
                    revision = self._log[records[-1].id]
                    removed = [gone for gone in removed if self._log[gone] < revision]
                    break
                records.append(record)
        return Page(records, removed, b"%d" % revision, restarted=cursor is None and since != b"")

    def _cursor(self, since: bytes) -> int | None:
        if not since.isdigit() or len(since) > _LONGEST_CURSOR:
            return None
        cursor = int(since)
        return cursor if self._first <= cursor <= self._revision else None

    def _changed_after(self, cursor: int) -> list[str]:
        newest_first: list[str] = []
        for machine_id, revision in reversed(self._log.items()):
            if revision <= cursor:
                break
            newest_first.append(machine_id)
        return newest_first[::-1]

    def _touch(self, machine_id: str) -> None:
        self._revision += 1
        self._log.pop(machine_id, None)
        self._log[machine_id] = self._revision

    def _forget_state(self, machine_id: str) -> None:
        known = self._records.get(machine_id)
        if known is not None:
            self._by_state[known.state].discard(machine_id)

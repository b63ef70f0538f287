"""The index: machines in segments (pools, slabs, lists), each in its own fixed order, brought up to date in batches."""

from array import array

import numpy as np

from bigfleet.engine.columns.growing import Flags, Floats, Ints, Longs, grown
from bigfleet.engine.kernels import kernels

NOWHERE = -1
# A segment whose order looks at no cost.
NO_BUCKET = -1
# Unused space is given back when it is more than this, and more than half of the store.
_WASTE = 4096


class Index:
    """Segments of rows in one store. A machine is in one segment at most: its home."""

    def __init__(self) -> None:
        self.rows: Ints = np.zeros(1024, np.int32)
        # The kind and the owner of each row, kept here so that a walk over a segment reads memory in order.
        self.kinds: Ints = np.zeros(1024, np.int32)
        self.owners: Ints = np.zeros((1024, 2), np.int32)
        self.starts: Longs = np.zeros(16, np.int64)
        self.sizes: Ints = np.zeros(16, np.int32)
        # Order of a segment: cost for this bucket (or none), penalty or not, id.
        self.buckets: Ints = np.zeros(16, np.int32)
        self.by_penalty: Flags = np.zeros(16, np.uint8)
        self._rooms: Ints = np.zeros(16, np.int32)
        self._count = 0
        self._end = 0
        # By machine row.
        self.home: Ints = np.full(0, NOWHERE, np.int32)
        self._pending: Flags = np.zeros(0, np.uint8)
        self._arrived = array("i")
        self._touched: set[int] = set()

    def new_segment(self, bucket: int = NO_BUCKET, by_penalty: bool = False) -> int:
        segment = self._count
        self._count += 1
        if segment >= len(self.starts):
            for name in ("starts", "sizes", "buckets", "by_penalty", "_rooms"):
                setattr(self, name, grown(getattr(self, name), segment + 1))
        self.buckets[segment] = bucket
        self.by_penalty[segment] = by_penalty
        return segment

    def make_room(self, rows: int) -> None:
        self.home = grown(self.home, rows, NOWHERE)
        self._pending = grown(self._pending, rows)

    def move(self, row: int, segment: int) -> None:
        """The machine lives there now, or has changed its place in the order there."""
        before = self.home[row]
        if before != NOWHERE:
            self._touched.add(int(before))
        self.home[row] = segment
        if segment != NOWHERE:
            self._touched.add(segment)
            if not self._pending[row]:
                self._pending[row] = 1
                self._arrived.append(row)

    def reorder(self, segment: int, bucket: int) -> None:
        """Sort a segment by another bucket's cost from now on."""
        self.buckets[segment] = bucket
        start = self.starts[segment]
        for row in self.rows[start : start + self.sizes[segment]].tolist():
            if self.home[row] == segment:
                self.move(row, segment)

    @property
    def settled(self) -> bool:
        return not self._touched

    def settle(
        self, kind_of: Ints, owner_of: Ints, labels: Longs, costs: Floats, terms: Ints, reclamations: Floats
    ) -> None:
        """Take all moves over: O(sizes of the segments that changed)."""
        if not self._touched:
            return
        touched = np.array(sorted(self._touched), np.int32)
        rows = np.array(self._arrived, np.int32)
        homes = self.home[rows]
        self._pending[rows[homes == NOWHERE]] = 0
        rows, homes = rows[homes != NOWHERE], homes[homes != NOWHERE]
        # By id within each home: for most segments that is their order already.
        by_id = np.argsort(labels[rows])
        order = by_id[np.argsort(homes[by_id], kind="stable")]
        adds = rows[order]
        add_starts = np.searchsorted(homes[order], np.append(touched, self._count)).astype(np.int64)
        needed = self.sizes[touched].astype(np.int64) + np.diff(add_starts)
        bound = self._end + int((needed + needed // 4 + 2).sum())
        self.rows = grown(self.rows, bound)
        self.kinds = grown(self.kinds, bound)
        self.owners = grown(self.owners, bound)
        self._end = int(
            kernels().merge_segments(
                touched, add_starts, adds, self.rows, self.kinds, self.owners, self.starts, self.sizes, self._rooms,
                self._end, self.home, self._pending, kind_of, owner_of, labels, costs, self.buckets,
                self.by_penalty, terms, reclamations,
            )
        )  # fmt: skip
        self._touched.clear()
        self._arrived = array("i")
        self._pack()

    def _pack(self) -> None:
        """Close the gaps that segments left behind when they moved."""
        count = self._count
        used = int(self._rooms[:count].sum())
        if self._end - used < max(_WASTE, used // 2):
            return
        order = np.argsort(self.starts[:count], kind="stable")
        sizes = self.sizes[:count].astype(np.int64)
        rooms = sizes + sizes // 8
        new_starts = np.zeros(count, np.int64)
        new_starts[order] = np.concatenate([[0], np.cumsum(rooms[order])[:-1]])
        end = int(rooms.sum())
        rows = np.zeros(end + end // 8 + 64, np.int32)
        kinds = np.zeros(end + end // 8 + 64, np.int32)
        owners = np.zeros((end + end // 8 + 64, 2), np.int32)
        # Where each kept entry comes from and goes to.
        offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        source = np.repeat(self.starts[:count], sizes) + offsets
        target = np.repeat(new_starts, sizes) + offsets
        rows[target] = self.rows[source]
        kinds[target] = self.kinds[source]
        owners[target] = self.owners[source]
        self.rows, self.kinds, self.owners, self._end = rows, kinds, owners, end
        self.starts[:count] = new_starts
        self._rooms[:count] = rooms

"""Machine ids: a row for each, and an order label so that ties by id are decided without reading the ids."""

from array import array
from bisect import bisect_left

import numpy as np

from bigfleet.engine.columns.growing import Ints, Longs, grown
from bigfleet.engine.columns.texts import Texts
from bigfleet.engine.kernels import kernels

# The distance of neighbours when labels are laid out anew: as many ids fit in between, halving, before the next time.
_GAP = 2**31
_FARTHEST = 2**62
# So many new ids are cheaper to sort together with the others than to look up one by one.
_FEW = 2048


class RowIds:
    """Id ↔ row. A removed id keeps its row until `forget`, so that a machine that comes back costs nothing."""

    def __init__(self) -> None:
        self.texts = Texts()
        # Label order is id order; valid for settled rows.
        self.labels: Longs = np.zeros(0, np.int64)
        self._sorted: Ints = np.zeros(0, np.int32)
        self._fresh = array("i")

    def row(self, machine_id: str) -> int:
        """−1 for an unknown id."""
        return self.texts.find(machine_id)

    def add(self, machine_id: str) -> int:
        row = self.texts.hold(machine_id)
        self.labels = grown(self.labels, row + 1)
        self._fresh.append(row)
        return row

    def forget(self, rows: Ints) -> None:
        """Give the rows away. They must be settled."""
        if not len(rows):
            return
        gone = np.zeros(len(self.texts), np.bool_)
        gone[rows] = True
        self._sorted = self._sorted[~gone[self._sorted]]
        for row in rows.tolist():
            self.texts.drop(row)

    def settle(self) -> None:
        """Label the new ids: O(new × log rows) for a few, one sort of all for many."""
        if not self._fresh:
            return
        text = self.texts.text
        if len(self._fresh) > max(_FEW, len(self._sorted) // 16):
            rows = np.concatenate([self._sorted, np.array(self._fresh, np.int32)])
            self._sorted = self._in_order(rows)
            self._lay_out()
        else:
            fresh = sorted(self._fresh, key=text)
            places = [bisect_left(self._sorted, text(row), key=text) for row in fresh]
            fitted = self._squeeze_in(fresh, places)
            self._sorted = np.insert(self._sorted, places, fresh).astype(np.int32)
            if not fitted:
                self._lay_out()
        self._fresh = array("i")

    def _in_order(self, rows: Ints) -> Ints:
        if not kernels().compiled:
            return np.array(sorted(rows.tolist(), key=self.texts.text), np.int32)
        rows = np.ascontiguousarray(rows, np.int32)
        offsets = np.array(self.texts.offsets, np.uint32)
        lengths = np.array(self.texts.lengths, np.uint32)
        arena = np.frombuffer(self.texts.arena, np.uint8)
        kernels().sort_by_text(rows, np.empty_like(rows), offsets, lengths, arena)
        return rows

    def _lay_out(self) -> None:
        self.labels[self._sorted] = np.arange(1, len(self._sorted) + 1, dtype=np.int64) * _GAP - _FARTHEST // 2

    def _neighbours(self, place: int, count: int) -> tuple[int, int]:
        """The labels before and after a place; beyond the ends there is room for `count` more."""
        room = (count + 1) * _GAP
        if not len(self._sorted):
            return 0, room
        if place == 0:
            high = int(self.labels[self._sorted[0]])
            return high - room, high
        low = int(self.labels[self._sorted[place - 1]])
        return low, int(self.labels[self._sorted[place]]) if place < len(self._sorted) else low + room

    def _squeeze_in(self, fresh: list[int], places: list[int]) -> bool:
        """Labels between the neighbours' ones; False if somewhere there is no room."""
        start = 0
        while start < len(fresh):
            place = places[start]
            end = start
            while end < len(fresh) and places[end] == place:
                end += 1
            count = end - start
            low, high = self._neighbours(place, count)
            step = (high - low) // (count + 1)
            if not step or low < -_FARTHEST or high > _FARTHEST:
                return False
            for index in range(count):
                self.labels[fresh[start + index]] = low + (index + 1) * step
            start = end
        return True

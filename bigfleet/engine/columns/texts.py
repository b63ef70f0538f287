"""Texts in one arena of bytes, each held once and known by a number: no Python object per text."""

from array import array

_EMPTY = -1
_DELETED = -2
_ARENA_LIMIT = 2**32


class Texts:
    """Text ↔ number. A text lives while it has a holder; the number of one that is gone is given out again.

    With `empty`, the empty text is number 0 for ever, with or without holders: it costs nothing.
    """

    def __init__(self, empty: bool = False) -> None:
        # Append-only until it is replaced as a whole, so that (arena, offset, length), once kept, stays readable.
        self.arena = bytearray()
        self.offsets = array("I")
        self.lengths = array("I")
        self._hashes = array("I")
        self._holders = array("I")
        self._slots = array("i", [_EMPTY]) * 16
        self._used_slots = 0
        self._free: list[int] = []
        self._garbage = 0
        self._has_empty = False
        if empty:
            self.hold("")
            self._has_empty = True

    def __len__(self) -> int:
        """Numbers given out so far, including those that are free again."""
        return len(self.offsets)

    def find(self, text: str) -> int:
        """The number of a text, −1 if it has no holder."""
        hashed = hash(text) & 0xFFFFFFFF
        slots, hashes = self._slots, self._hashes
        mask = len(slots) - 1
        place = hashed & mask
        while (number := slots[place]) != _EMPTY:
            if number >= 0 and hashes[number] == hashed and self.text(number) == text:
                return number
            place = (place + 1) & mask
        return -1

    def hold(self, text: str) -> int:
        """The number of a text, which now has one more holder."""
        if self._has_empty and not text:
            return 0
        number = self.find(text)
        if number < 0:
            number = self._add(text)
        self._holders[number] += 1
        return number

    def drop(self, number: int) -> None:
        """One holder less."""
        if self._has_empty and not number:
            return
        self._holders[number] -= 1
        if self._holders[number]:
            return
        slots = self._slots
        mask = len(slots) - 1
        place = self._hashes[number] & mask
        while slots[place] != number:
            place = (place + 1) & mask
        slots[place] = _DELETED
        self._garbage += self.lengths[number]
        self.lengths[number] = 0
        self._free.append(number)

    def text(self, number: int) -> str:
        start = self.offsets[number]
        return self.arena[start : start + self.lengths[number]].decode("utf-8", "surrogatepass")

    def _add(self, text: str) -> int:
        data = text.encode("utf-8", "surrogatepass")
        if self._garbage > 4096 and self._garbage > len(self.arena) // 2:
            self._pack()
        if len(self.arena) + len(data) >= _ARENA_LIMIT:
            raise OverflowError("the texts of one fleet take more than 4 GiB")
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.offsets)
            for column in (self.offsets, self.lengths, self._hashes, self._holders):
                column.append(0)
        self.offsets[number] = len(self.arena)
        self.lengths[number] = len(data)
        self._hashes[number] = hash(text) & 0xFFFFFFFF
        self.arena += data
        if (self._used_slots + 1) * 3 > len(self._slots) * 2:
            self._spread_out()
        self._place(number)
        return number

    def _place(self, number: int) -> None:
        slots = self._slots
        mask = len(slots) - 1
        place = self._hashes[number] & mask
        while slots[place] >= 0:
            place = (place + 1) & mask
        self._used_slots += slots[place] == _EMPTY
        slots[place] = number

    def _spread_out(self) -> None:
        """Lay the slots out anew, with room to spare and without deleted ones."""
        numbers = [number for number in self._slots if number >= 0]
        size = 16
        while size < 2 * len(numbers):
            size *= 2
        self._slots = array("i", [_EMPTY]) * size
        self._used_slots = 0
        for number in numbers:
            self._place(number)

    def _pack(self) -> None:
        """Copy what is alive into a new arena."""
        packed = bytearray()
        for number in range(len(self.offsets)):
            start, length = self.offsets[number], self.lengths[number]
            self.offsets[number] = len(packed)
            packed += self.arena[start : start + length]
        self.arena = packed
        self._garbage = 0

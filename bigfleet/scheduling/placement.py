"""Where Pods go: the nodes of one cluster in columns, filtered by affinity and room, least allocated first."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.core.machines import Machine
from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import ReadVector

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_FIRST_ROWS = 16
# Batches above this size are worth a heap.
_HEAP_FROM = 4
_NOWHERE = np.iinfo(np.int64).max


def used_share(loads: Iterable[Floats]) -> float:
    """How full the fullest dimension of some clusters is, all their nodes together; 0 without nodes."""
    used, there = sum(loads, np.zeros((2, 1)))
    return max((float(u / t) for u, t in zip(used, there, strict=True) if t > 0), default=0.0)


class Nodes:
    """Rows are nodes, in the order of their arrival, so that ties are always broken alike."""

    def __init__(self, dimensions: Sequence[str]) -> None:
        self.dimensions = tuple(dimensions)
        self.machines: list[Machine | None] = []
        self.rows: dict[str, int] = {}
        width = len(self.dimensions)
        self._capacity: Ints = np.zeros((_FIRST_ROWS, width), np.int64)
        self._used: Ints = np.zeros((_FIRST_ROWS, width), np.int64)
        self._alive: Mask = np.zeros(_FIRST_ROWS, np.bool_)
        # Which rows match a profile, and which domain of a key each row is in.
        self._matching: dict[str, tuple[NeedProfile, Mask]] = {}
        self._domains: dict[str, NDArray[Any]] = {}

    def vector(self, resources: ReadVector) -> Ints:
        """A vector in the order of the columns. A dimension that no node has cannot be asked for."""
        missing = resources.keys() - set(self.dimensions)
        if missing:
            raise ValueError(f"no machine offers {min(missing)}")
        return np.array([resources.get(name, 0) for name in self.dimensions], np.int64)

    def add(self, machine: Machine) -> None:
        row = len(self.machines)
        if row == len(self._alive):
            self._grow()
        self.machines.append(machine)
        self.rows[machine.id] = row
        self._capacity[row] = [machine.allocatable.get(name, 0) for name in self.dimensions]
        self._used[row] = 0
        self._alive[row] = True
        for profile, mask in self._matching.values():
            mask[row] = profile.matches(machine.attribute)
        for key, domains in self._domains.items():
            domains[row] = machine.attribute(key) or ""

    def close(self, machine_id: str) -> None:
        """No more Pods for this node; those that it has keep their place."""
        self._alive[self.rows[machine_id]] = False

    def remove(self, machine_id: str) -> None:
        row = self.rows.pop(machine_id)
        self.machines[row] = None
        self._alive[row] = False
        if len(self.machines) > 4 * _FIRST_ROWS and 2 * len(self.rows) < len(self.machines):
            self._compact()

    def occupy(self, machine_id: str, pod: Ints, count: int = 1) -> None:
        """Count Pods that were not placed by `place`."""
        self._used[self.rows[machine_id]] += pod * count

    def release(self, machine_id: str, pod: Ints, count: int = 1) -> None:
        self._used[self.rows[machine_id]] -= pod * count

    def load(self) -> Floats:
        """What Pods ask for, and what the nodes have: [used or there, dimension]; a fleet's bytes overflow ints."""
        return np.stack([of[self._alive].sum(axis=0, dtype=np.float64) for of in (self._used, self._capacity)])

    def matching(self, profile: NeedProfile) -> Mask:
        known = self._matching.get(profile.fingerprint)
        if known is None:
            mask = np.zeros(len(self._alive), np.bool_)
            for row, machine in enumerate(self.machines):
                mask[row] = machine is not None and profile.matches(machine.attribute)
            known = self._matching[profile.fingerprint] = profile, mask
        return known[1] & self._alive

    def domains(self, key: str) -> NDArray[Any]:
        """The domain of each row; empty where a node has none."""
        known = self._domains.get(key)
        if known is None:
            known = np.full(len(self._alive), "", object)
            for row, machine in enumerate(self.machines):
                known[row] = (machine.attribute(key) or "") if machine else ""
            self._domains[key] = known
        return known

    def roomiest_domain(self, candidates: Mask, key: str, pod: Ints, count: int) -> tuple[str, int]:
        """The domain that holds `count` Pods, the fullest such first, else that with most room; and its room."""
        domains, asked = self.domains(key), pod > 0
        rooms: dict[str, int] = {}
        for row in np.flatnonzero(candidates):
            free = self._capacity[row, asked] - self._used[row, asked]
            if domains[row]:
                rooms[domains[row]] = rooms.get(domains[row], 0) + max(0, int((free // pod[asked]).min()))
        enough = {value: room for value, room in rooms.items() if room >= count}
        if enough:
            best = min(enough, key=lambda value: (enough[value], value))
        else:
            best = min(rooms, key=lambda value: (-rooms[value], value), default="")
        return best, rooms.get(best, 0)

    def place(self, pod: Ints, count: int, candidates: Mask) -> list[str]:
        """Put up to `count` equal Pods on the candidates, one after the other, each where least is allocated then.

        In permille, summed over the dimensions: whole numbers, so the same on every machine.
        """
        fits = candidates & (self._capacity - self._used >= pod).all(axis=1)
        rows = np.flatnonzero(fits)
        if not len(rows):
            return []
        if count <= _HEAP_FROM:
            return self._place_few(pod, count, rows)
        return self._place_many(pod, count, rows)

    def _place_few(self, pod: Ints, count: int, rows: Ints) -> list[str]:
        capacity = self._capacity[rows]
        placed: list[str] = []
        for _ in range(count):
            after = self._used[rows] + pod
            scores = (after * 1000 // np.maximum(capacity, 1)).sum(axis=1)
            scores[(after > capacity).any(axis=1)] = _NOWHERE
            best = int(scores.argmin())
            if scores[best] == _NOWHERE:
                break
            self._used[rows[best]] += pod
            placed.append(self._id(int(rows[best])))
        return placed

    def _place_many(self, pod: Ints, count: int, rows: Ints) -> list[str]:
        """The same with a heap, and plain numbers for the rows that are used: numpy would cost more at each Pod."""
        wanted = pod.tolist()
        scores = ((self._used[rows] + pod) * 1000 // np.maximum(self._capacity[rows], 1)).sum(axis=1)
        heap = list(zip(scores.tolist(), rows.tolist(), strict=True))
        heapq.heapify(heap)
        used: dict[int, list[int]] = {}
        capacity: dict[int, list[int]] = {}
        placed: list[str] = []
        while heap and len(placed) < count:
            _, row = heap[0]
            if row not in used:
                used[row], capacity[row] = self._used[row].tolist(), self._capacity[row].tolist()
            taken = used[row] = [before + more for before, more in zip(used[row], wanted, strict=True)]
            placed.append(self._id(row))
            score = 0
            for have, now, more in zip(capacity[row], taken, wanted, strict=True):
                if now + more > have:
                    heapq.heappop(heap)
                    break
                score += (now + more) * 1000 // (have or 1)
            else:
                heapq.heapreplace(heap, (score, row))
        for row, taken in used.items():
            self._used[row] = taken
        return placed

    def _id(self, row: int) -> str:
        machine = self.machines[row]
        if machine is None:
            raise RuntimeError(f"row {row} has no node")
        return machine.id

    def _compact(self) -> None:
        """Drop the rows of nodes that are gone; the others keep their order."""
        keep = np.array(sorted(self.rows.values()), np.int64)
        self.machines = [self.machines[row] for row in keep]
        self.rows = {machine.id: row for row, machine in enumerate(self.machines) if machine}
        room = max(_FIRST_ROWS, 2 * len(keep))
        for name in ("_capacity", "_used"):
            column = np.zeros((room, len(self.dimensions)), np.int64)
            column[: len(keep)] = getattr(self, name)[keep]
            setattr(self, name, column)
        self._alive = np.concatenate([self._alive[keep], np.zeros(room - len(keep), np.bool_)])
        self._matching, self._domains = {}, {}

    def _grow(self) -> None:
        more = len(self._alive)
        self._capacity = np.concatenate([self._capacity, np.zeros_like(self._capacity)])
        self._used = np.concatenate([self._used, np.zeros_like(self._used)])
        self._alive = np.concatenate([self._alive, np.zeros(more, np.bool_)])
        self._matching = {
            name: (profile, np.concatenate([mask, np.zeros(more, np.bool_)]))
            for name, (profile, mask) in self._matching.items()
        }
        self._domains = {
            key: np.concatenate([domains, np.full(more, "", object)]) for key, domains in self._domains.items()
        }

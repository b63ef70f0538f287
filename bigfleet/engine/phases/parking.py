"""Parking: a gang that can't be placed stops holding a domain's free machines (docs/reference/engine.md#parking)."""

from collections.abc import Iterable, Iterator, Mapping

from bigfleet.engine.columns.blocks import Arrangement

# Cluster → (fingerprint, group) → cycles without hope. Texts, because an engine may be given another fleet.
Waits = Mapping[str, Mapping[tuple[str, str], int]]


class Parking:
    """Counts, per gang, the cycles in which it could not be placed at all. Remembered between cycles."""

    def __init__(self, park_after_cycles: int, probe_every: int) -> None:
        self._park_after_cycles = park_after_cycles
        self._probe_every = probe_every
        # Replaced, never changed: code that keeps a cycle's waits still sees them as they were.
        self.waits: Waits = {}
        # Clusters some of whose gangs were parked, unparked or told to probe by the last count.
        self.restamped: set[str] = set()

    def is_parked(self, cycles: int) -> bool:
        """Hopeless for long, except in cycles in which the gang probes."""
        return cycles >= self._park_after_cycles and cycles % self._probe_every != 0

    def is_probing(self, cycles: int) -> bool:
        """Hopeless for long, and allowed to try in this cycle."""
        return cycles >= self._park_after_cycles and cycles % self._probe_every == 0

    def age(self, cycles: int) -> int:
        """Cycles since the gang was first parked, this one included."""
        return max(0, cycles - self._park_after_cycles + 1)

    def parked_rows(self, arrangement: Arrangement) -> Iterator[int]:
        """The rows of a cluster that are parked in this cycle."""
        waits = self.waits.get(arrangement.block.cluster)
        if waits:
            for row in arrangement.gangs.tolist():
                if self.is_parked(waits.get(arrangement.gang(row), 0)):
                    yield row

    def count(self, hopeless: Iterable[tuple[str, tuple[str, str]]]) -> None:
        """Count this cycle; a gang that is placed, that acquires or that has gone starts anew."""
        before = self.waits
        counted: dict[str, dict[tuple[str, str], int]] = {}
        for cluster, gang in hopeless:
            counted.setdefault(cluster, {})[gang] = before.get(cluster, {}).get(gang, 0) + 1
        self.restamped = {
            cluster
            for cluster in before.keys() | counted.keys()
            if self._stamps(before.get(cluster, {})) != self._stamps(counted.get(cluster, {}))
        }
        self.waits = counted

    def _stamps(self, waits: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], bool]:
        """Whether each gang that has waited for long is parked (else it probes)."""
        return {gang: self.is_parked(cycles) for gang, cycles in waits.items() if self.age(cycles)}

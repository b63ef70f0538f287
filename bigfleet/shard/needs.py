"""The demand of every cluster, as of its last accepted roll-up (spec/engine.md §3.6, §3.18)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_not

from bigfleet.core.needs import Need

# The empty-roll-up guard: a drop from at least so many rows …
_GUARDED_ROWS = 10
# … to less than this part of them …
_SUSPICIOUS_FRACTION = 0.1
# … is believed when it comes this many times in a row.
_CONFIRMATIONS = 3


@dataclass(frozen=True)
class Verdict:
    """What became of a roll-up: whether it was taken, whether it said anything new, how often it was held."""

    accepted: bool
    changed: bool
    held: int

    @property
    def outcome(self) -> str:
        """The metric's label."""
        return "changed" if self.changed else "unchanged" if self.accepted else "held"


UNCHANGED = Verdict(accepted=True, changed=False, held=0)


def _as_known(need: Need, known: Need | None, now: float) -> Need:
    """The need with its arrival: the very object that is known if it asks for the same."""
    if known is None:
        return replace(need, arrival=now)
    if need.aggregate == known.aggregate and need.min_unit == known.min_unit and need.profile == known.profile:
        return known
    return replace(need, arrival=known.arrival)


def _same_profiles(before: Sequence[Need], after: Sequence[Need]) -> bool:
    """Whether they are the very same, row by row: most changes are of amounts only."""
    return len(before) == len(after) and all(
        one.profile is other.profile for one, other in zip(before, after, strict=True)
    )


class NeedsTable:
    """Cluster → needs. A cluster that never sent a roll-up is absent, which is not the same as having no demand."""

    def __init__(self, guard: bool) -> None:
        self._guard = guard
        self._needs: dict[str, tuple[Need, ...]] = {}
        self._held: dict[str, int] = {}
        # Demand whose first machine has not come yet: (cluster, fingerprint) → first sight.
        self._waiting: dict[str, dict[str, float]] = {}
        # Clusters whose demand the engine has not heard of yet.
        self._unheard: dict[str, None] = {}
        # Need rows by interruption penalty bucket.
        self.rows_per_bucket: Counter[int] = Counter()

    def unheard(self) -> Iterator[tuple[str, Sequence[Need]]]:
        """The demand of every cluster for which it has changed since this was last asked."""
        while self._unheard:
            cluster, _ = self._unheard.popitem()
            yield cluster, self._needs[cluster]

    def replace(self, cluster: str, needs: Sequence[Need], now: float) -> Verdict:
        """Take a whole roll-up, unless the guard holds it. What is known keeps its arrival."""
        if self._suspicious(cluster, needs):
            held = self._held.get(cluster, 0) + 1
            if held < _CONFIRMATIONS:
                self._held[cluster] = held
                return Verdict(accepted=False, changed=False, held=held)
        self._held.pop(cluster, None)
        before = self._needs.get(cluster)
        known = {(need.profile.fingerprint, need.group): need for need in before or ()}
        after = tuple(_as_known(need, known.get((need.profile.fingerprint, need.group)), now) for need in needs)
        self._needs[cluster] = after
        if before is None or not _same_profiles(before, after):
            self.rows_per_bucket.subtract(need.profile.interruption_bucket for need in before or ())
            self.rows_per_bucket.update(need.profile.interruption_bucket for need in after)
            self._start_waiting(cluster, before or (), after, now)
        # What asks for the same is the very same object.
        changed = before is None or len(before) != len(after) or any(map(is_not, before, after))
        if changed:
            self._unheard[cluster] = None
        return Verdict(accepted=True, changed=changed, held=0)

    def repeat(self, cluster: str) -> bool:
        """The cluster says again what its demand is from; whether that ends a doubt."""
        return self._held.pop(cluster, None) is not None

    def first_machine(self, cluster: str, fingerprint: str) -> float | None:
        """A machine came up for this demand: when the demand was first seen, told once only."""
        return self._waiting.get(cluster, {}).pop(fingerprint, None)

    def _suspicious(self, cluster: str, needs: Sequence[Need]) -> bool:
        rows = len(self._needs.get(cluster, ()))
        return self._guard and rows >= _GUARDED_ROWS and len(needs) < _SUSPICIOUS_FRACTION * rows

    def _start_waiting(self, cluster: str, before: Sequence[Need], after: Sequence[Need], now: float) -> None:
        known = {need.profile.fingerprint for need in before}
        wanted = {need.profile.fingerprint for need in after}
        waiting = {fp: since for fp, since in self._waiting.get(cluster, {}).items() if fp in wanted}
        self._waiting[cluster] = waiting | dict.fromkeys(wanted - known, now)

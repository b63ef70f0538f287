"""The demand of every cluster, as of its last accepted roll-up (docs/reference/engine.md#inventory)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import is_not
from typing import NamedTuple

from bigfleet.core.needs import Need

# The empty-roll-up guard (docs/reference/engine.md#rails): a drop from at least so many rows …
_GUARDED_ROWS = 10
# … to less than this part of them …
_SUSPICIOUS_FRACTION = 0.1
# … is believed when it comes this many times in a row.
_CONFIRMATIONS = 3


@dataclass(frozen=True)
class RollupVerdict:
    """What became of a roll-up: whether it was taken, whether it said anything new, how often it was held."""

    accepted: bool
    changed: bool
    held: int

    @property
    def outcome(self) -> str:
        """The metric's label."""
        return "changed" if self.changed else "unchanged" if self.accepted else "held"


class News(NamedTuple):
    """The demand of a cluster, and in which rows it is not what the engine heard last; None: in any."""

    cluster: str
    needs: Sequence[Need]
    rows: frozenset[int] | None


UNCHANGED = RollupVerdict(accepted=True, changed=False, held=0)


def _key(need: Need) -> tuple[str, str]:
    return need.profile.fingerprint, need.group


def _as_known(need: Need, known: Need | None, now: float) -> Need:
    """The need with its arrival: the very object that is known if it asks for the same."""
    if known is None:
        return replace(need, arrival=now)
    if need.aggregate == known.aggregate and need.min_unit == known.min_unit and need.profile == known.profile:
        return known
    return replace(need, arrival=known.arrival)


def _moved(before: Sequence[Need], after: Sequence[Need]) -> list[int]:
    """The rows of `after` that are not the very object that was there before: most often a few of many."""
    same_places = compress(range(len(after)), map(is_not, after, before))
    return [*same_places, *range(len(before), len(after))]


class NeedsTable:
    """Cluster → needs. A cluster that never sent a roll-up is absent, which is not the same as having no demand."""

    def __init__(self, guard: bool) -> None:
        self._guard = guard
        self._needs: dict[str, tuple[Need, ...]] = {}
        self._held: dict[str, int] = {}
        # Demand whose first machine has not come yet: (cluster, fingerprint) → first sight.
        self._waiting: dict[str, dict[str, float]] = {}
        # Clusters whose demand the engine has not heard of yet, and which of its rows.
        self._unheard: dict[str, frozenset[int] | None] = {}
        # Clusters that the engine has to forget.
        self._forgotten: set[str] = set()
        # Need rows by interruption penalty bucket.
        self.rows_per_bucket: Counter[int] = Counter()

    def of(self, cluster: str) -> Sequence[Need]:
        """A cluster's demand. A roll-up that holds one of these very objects asks for the same: `is` compares them."""
        return self._needs.get(cluster, ())

    def unheard(self) -> Iterator[News]:
        """The demand of every cluster for which it has changed since this was last asked."""
        while self._unheard:
            cluster, rows = self._unheard.popitem()
            yield News(cluster, self._needs[cluster], rows)

    def forgotten(self) -> Iterator[str]:
        """Every cluster that was forgotten since this was last asked; before `unheard`."""
        while self._forgotten:
            yield self._forgotten.pop()

    def forget(self, cluster: str) -> None:
        """As if the cluster had never sent a roll-up: another shard has it."""
        needs = self._needs.pop(cluster, None)
        for kept in (self._held, self._waiting, self._unheard):
            kept.pop(cluster, None)
        if needs is not None:
            self.rows_per_bucket.subtract(need.profile.interruption_bucket for need in needs)
            self._forgotten.add(cluster)

    def replace(self, cluster: str, needs: Sequence[Need], now: float) -> RollupVerdict:
        """Take a whole roll-up, unless the guard holds it. What is known keeps its arrival."""
        if self._suspicious(cluster, needs):
            held = self._held.get(cluster, 0) + 1
            if held < _CONFIRMATIONS:
                self._held[cluster] = held
                return RollupVerdict(accepted=False, changed=False, held=held)
        self._held.pop(cluster, None)
        heard = cluster in self._needs
        before = self.of(cluster)
        after = self._with_arrivals(before, needs, now)
        changed = _moved(before, after)
        self._needs[cluster] = after
        same_rows = heard and len(before) == len(after)
        if not same_rows or any(before[row].profile is not after[row].profile for row in changed):
            self.rows_per_bucket.subtract(need.profile.interruption_bucket for need in before)
            self.rows_per_bucket.update(need.profile.interruption_bucket for need in after)
            self._start_waiting(cluster, before, after, now)
        if same_rows and not changed:
            return UNCHANGED
        earlier = self._unheard.get(cluster, frozenset())
        self._unheard[cluster] = earlier.union(changed) if same_rows and earlier is not None else None
        return RollupVerdict(accepted=True, changed=True, held=0)

    def _with_arrivals(self, before: Sequence[Need], needs: Sequence[Need], now: float) -> tuple[Need, ...]:
        after = list(needs)
        moved = _moved(before, needs)
        # What is in its place still has its key to itself: a need's older self is among the others.
        others = [*(before[row] for row in moved if row < len(before)), *before[len(needs) :]]
        known = {_key(need): need for need in others}
        for row in moved:
            after[row] = _as_known(needs[row], known.get(_key(needs[row])), now)
        return tuple(after)

    def repeat(self, cluster: str) -> bool:
        """The cluster says again what its demand is from; whether that ends a doubt."""
        return self._held.pop(cluster, None) is not None

    def first_machine(self, cluster: str, fingerprint: str) -> float | None:
        """A machine came up for this demand: when the demand was first seen, told once only."""
        return self._waiting.get(cluster, {}).pop(fingerprint, None)

    def _suspicious(self, cluster: str, needs: Sequence[Need]) -> bool:
        rows = len(self.of(cluster))
        return self._guard and rows >= _GUARDED_ROWS and len(needs) < _SUSPICIOUS_FRACTION * rows

    def _start_waiting(self, cluster: str, before: Sequence[Need], after: Sequence[Need], now: float) -> None:
        known = {need.profile.fingerprint for need in before}
        wanted = {need.profile.fingerprint for need in after}
        waiting = {fp: since for fp, since in self._waiting.get(cluster, {}).items() if fp in wanted}
        self._waiting[cluster] = waiting | dict.fromkeys(wanted - known, now)

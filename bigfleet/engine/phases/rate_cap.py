"""How fast Phase 3 may take: so many machines in any window of time, however often the engine is asked (ADR-36).

See docs/reference/engine.md#rails.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.columns.growing import Ints


def most_in_a_window(machines: int, fraction: float) -> int:
    """The most of so many machines that may be taken in one window: at least one."""
    return max(1, math.floor(fraction * machines))


@dataclass
class _Taken:
    """What one party gave up within the last window."""

    # Machines that were decided and are still where they were: when they were decided last.
    open: dict[str, float] = field(default_factory=dict)
    # Times of those that have gone, or are wanted again.
    spent: list[float] = field(default_factory=list)

    def forget(self, window: float, now: float) -> None:
        """What is a window old counts no more."""
        self.open = {machine_id: at for machine_id, at in self.open.items() if at + window > now}
        self.spent = [at for at in self.spent if at + window > now]

    @property
    def oldest(self) -> float:
        return min(*self.spent, *self.open.values(), math.inf, math.inf)


class Rate:
    """Of what each party has, at most a share in any window; at least one machine. A share of 0 is no limit.

    What was decided and not carried out is decided again: that is the same machine, and does not count twice.
    """

    def __init__(self, fraction: float, window_seconds: float) -> None:
        self._fraction = fraction
        self._window = window_seconds
        self._taken: dict[int, _Taken] = {}
        self._asked: set[int] = set()
        # When the next machine may be taken of what the last cycle put off; infinite if it put off none.
        self.again_at = math.inf

    @property
    def waits(self) -> bool:
        """Whether time alone may let more go, or what is decided again must be noted."""
        return bool(self._taken)

    def begin(self) -> None:
        """A cycle begins to ask."""
        self._asked = set()
        self.again_at = math.inf

    def grant(self, fleet: Fleet, party: int, machines: Ints, of: int, now: float) -> Ints:
        """Those of the machines that may be taken now, the first of them, in their order. `of`: what the party has."""
        if self._fraction <= 0:
            return machines
        self._asked.add(party)
        taken = self._taken.setdefault(party, _Taken())
        taken.forget(self._window, now)
        again = self._still_there(fleet, taken, machines)
        room = max(0, most_in_a_window(of, self._fraction) - len(taken.open) - len(taken.spent))
        if again.any():
            again[np.flatnonzero(~again)[:room]] = True
            kept = machines[again]
        else:
            kept = machines[:room]
        taken.open.update((fleet.ids.texts.text(row), now) for row in kept.tolist())
        if len(kept) < len(machines):
            self.again_at = min(self.again_at, taken.oldest + self._window)
        return kept

    def end(self, now: float) -> None:
        """Whoever was not asked for anything has nothing that could be decided again."""
        for party in [party for party in self._taken if party not in self._asked]:
            taken = self._taken[party]
            taken.spent += taken.open.values()
            taken.open = {}
            taken.forget(self._window, now)
            if not taken.spent:
                del self._taken[party]

    def _still_there(self, fleet: Fleet, taken: _Taken, machines: Ints) -> NDArray[np.bool_]:
        """Which of the machines were decided before and have been offered ever since; all others are spent."""
        if not taken.open:
            return np.zeros(len(machines), np.bool_)
        rows = {machine_id: fleet.ids.row(machine_id) for machine_id in taken.open}
        again = np.isin(machines, list(rows.values()))
        offered = set(machines[again].tolist())
        for machine_id, row in rows.items():
            if row not in offered:
                taken.spent.append(taken.open.pop(machine_id))
        return again

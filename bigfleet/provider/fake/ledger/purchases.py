"""Machines that were bought while one just like them stood idle and cost nothing. Pure."""

from collections import deque
from typing import NamedTuple

from bigfleet.provider.fake.ledger.shapes import FleetShapes, Slot

# A shard hears of a machine that has become idle within a cycle or two; from then on it must take that first.
KNOWN_AFTER_SECONDS = 30.0
# The idle machine may have been taken by the same cycle: the Configure comes a moment after the Create.
TAKEN_WITHIN_SECONDS = 30.0


class Purchase(NamedTuple):
    """A Create that was accepted."""

    machine_id: str
    slot: Slot
    at: float


class Purchases:
    """Free machines that stand idle, by what they are and where; and purchases that are still to be judged."""

    def __init__(self, shapes: FleetShapes) -> None:
        self._shapes = shapes
        # Slot → machine → since when.
        self._idle: dict[Slot, dict[str, float]] = {}
        self._bought: deque[Purchase] = deque()

    def stands_idle(self, machine_id: str, now: float) -> None:
        shape = self._shapes.get(machine_id)
        if shape and not shape.nanodollars_per_hour:
            self._idle.setdefault(shape.slot, {}).setdefault(machine_id, now)

    def taken(self, machine_id: str) -> None:
        """It was given to a cluster, given back to the provider, or lost."""
        shape = self._shapes.get(machine_id)
        if shape:
            self._idle.get(shape.slot, {}).pop(machine_id, None)

    def bought(self, machine_id: str, now: float) -> None:
        shape = self._shapes.get(machine_id)
        if shape and shape.nanodollars_per_hour:
            self._bought.append(Purchase(machine_id, shape.slot, now))

    def needless(self, now: float) -> list[tuple[str, str]]:
        """Purchases whose time is over, each told once, with the machine that stands idle all the while."""
        found = []
        while self._bought and self._bought[0].at <= now - TAKEN_WITHIN_SECONDS:
            purchase = self._bought.popleft()
            idle = self._idle.get(purchase.slot, {}).items()
            spare = next((name for name, since in idle if since <= purchase.at - KNOWN_AFTER_SECONDS), None)
            if spare is not None:
                found.append((purchase.machine_id, spare))
        return found

"""Machines that cost money and stand idle: since when, how much an hour, and how soon they were given back. Pure."""

from bigfleet.core.machines import CapacityType
from bigfleet.provider.fake.ledger.shapes import FleetShapes

# Kinds that BigFleet gives back when nothing wants them; bare metal and reservations are paid for either way.
RETURNABLE = (CapacityType.ON_DEMAND, CapacityType.SPOT)
# Buckets of the time from idle to Delete; fine where holds are usual.
BEFORE_DELETE_SECONDS = (1, 2, 4, 6, 8, 10, 13, 15, 18, 20, 28, 30, 43, 45, 58, 60, 88, 90, 118, 120, 298, 300, 600)


class Idling:
    """Returnable machines by kind. Times are the caller's, on one clock."""

    def __init__(self, shapes: FleetShapes) -> None:
        self._shapes = shapes
        # Machine → since when, oldest first.
        self._since: dict[CapacityType, dict[str, float]] = {kind: {} for kind in RETURNABLE}
        # Idle when the ledger began: since when is not known.
        self._recalled: set[str] = set()
        self.nanodollars_per_hour = dict.fromkeys(RETURNABLE, 0)

    def recall(self, machine_id: str, now: float) -> None:
        """It stood idle before the ledger began."""
        self.stands_idle(machine_id, now)
        if any(machine_id in since for since in self._since.values()):
            self._recalled.add(machine_id)

    def stands_idle(self, machine_id: str, now: float) -> None:
        shape = self._shapes.get(machine_id)
        if shape is None or shape.capacity_type not in RETURNABLE or machine_id in self._since[shape.capacity_type]:
            return
        self._since[shape.capacity_type][machine_id] = now
        self.nanodollars_per_hour[shape.capacity_type] += shape.nanodollars_per_hour

    def taken(self, machine_id: str) -> float | None:
        """It was given to a cluster or lost: since when it had stood idle, None if it had not, or nothing is known."""
        shape = self._shapes.get(machine_id)
        if shape is None or shape.capacity_type not in RETURNABLE:
            return None
        since = self._since[shape.capacity_type].pop(machine_id, None)
        if since is None:
            return None
        self.nanodollars_per_hour[shape.capacity_type] -= shape.nanodollars_per_hour
        if machine_id in self._recalled:
            self._recalled.discard(machine_id)
            return None
        return since

    def given_back(self, machine_id: str, now: float) -> tuple[CapacityType, float] | None:
        """Its Delete was accepted: of which kind it is and how long it stood idle, None if nothing is known of that."""
        since, shape = self.taken(machine_id), self._shapes.get(machine_id)
        return None if since is None or shape is None else (shape.capacity_type, now - since)

    def oldest_seconds(self, kind: CapacityType, now: float) -> float:
        since = next(iter(self._since[kind].values()), now)
        return max(0.0, now - since)

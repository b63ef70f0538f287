"""Machines that cost money and stand idle: since when, how much an hour, and how soon they were given back. Pure."""

from bigfleet.core.machines import CapacityType
from bigfleet.provider.fake.ledger.shapes import FleetShapes

# Kinds that BigFleet gives back when nothing wants them; bare metal and reservations are paid for either way.
RETURNABLE = (CapacityType.ON_DEMAND, CapacityType.SPOT)


class Idling:
    """Returnable machines by kind. Times are the caller's, on one clock."""

    def __init__(self, shapes: FleetShapes) -> None:
        self._shapes = shapes
        # Machine → since when, oldest first.
        self._since: dict[CapacityType, dict[str, float]] = {kind: {} for kind in RETURNABLE}
        # Idle when the ledger began: since when is not known.
        self._recalled: set[str] = set()
        self.nanodollars_per_hour = dict.fromkeys(RETURNABLE, 0)
        # The shortest time after which one was given back; kinds of which none was are missing.
        self.shortest_seconds: dict[CapacityType, float] = {}

    def recall(self, machine_id: str, now: float) -> None:
        """It stood idle before the ledger began."""
        self._recalled.add(machine_id)
        self.stands_idle(machine_id, now)

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

    def given_back(self, machine_id: str, now: float) -> None:
        """Its Delete was accepted."""
        since, shape = self.taken(machine_id), self._shapes.get(machine_id)
        if since is not None and shape is not None:
            seconds, kind = now - since, shape.capacity_type
            self.shortest_seconds[kind] = min(seconds, self.shortest_seconds.get(kind, seconds))

    def oldest_seconds(self, kind: CapacityType, now: float) -> float:
        since = next(iter(self._since[kind].values()), now)
        return max(0.0, now - since)

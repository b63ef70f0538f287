"""What shards have asked for: calls whose end no shard was told, which shard owns a machine, in which order. Pure."""

from dataclasses import dataclass

from bigfleet.core.machines import MachineState

MUTATING = ("Create", "Configure", "Drain", "Delete")
# Where a machine is while a call is carried out, and where the call ends when all goes well.
_THROUGH = {
    "Create": MachineState.CREATING,
    "Configure": MachineState.CONFIGURING,
    "Drain": MachineState.DRAINING,
    "Delete": MachineState.DELETING,
}
_TARGET = {
    "Create": MachineState.IDLE,
    "Configure": MachineState.CONFIGURED,
    "Drain": MachineState.IDLE,
    "Delete": MachineState.SPECULATIVE,
}

Stamp = tuple[int, int]


@dataclass(slots=True)
class Call:
    """A mutating call, from its arrival on."""

    kind: str
    machine_id: str
    shard: str
    epoch: int
    sequence: int
    cluster: str
    arrived: float
    mark: Stamp | None = None
    """The newest token of its shard for this machine that had been accepted when it arrived."""
    operation: str = ""
    """Of its answer: the same for a call that is repeated."""
    told: bool = False
    """Its end was told by another answer before its own was given."""

    @property
    def fenced(self) -> bool:
        """Whether it carries a token; without one there is no order to keep."""
        return bool(self.shard)


class Calls:
    """Accepted calls by machine, until the shard has been told how they ended."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._marks: dict[tuple[str, str], Stamp] = {}
        # Not answered yet; by machine, because answers about the machine may come first.
        self._asked: dict[str, list[Call]] = {}
        self._untold: dict[str, Call] = {}
        # Machines that were struck on the way: where they are then ends the call, wherever it is.
        self._struck: set[str] = set()
        # Since when, oldest first.
        self._since: dict[str, dict[str, float]] = {kind: {} for kind in MUTATING}

    def ask(self, call: Call) -> None:
        call.mark = self._marks.get((call.shard, call.machine_id))
        self._asked.setdefault(call.machine_id, []).append(call)

    def refuse(self, call: Call) -> None:
        self._answered(call)

    def accept(self, call: Call, state: int, operation: str) -> list[str]:
        """The call was accepted, its machine now in `state`: the rules that this breaks."""
        call.operation = operation
        self._answered(call)
        broken = self._order(call) if call.fenced else []
        known = self._untold.get(call.machine_id)
        if call.told or state != _THROUGH[call.kind]:
            self._forget(call.machine_id)
        elif known is None or known.operation != operation:
            self._await(call)
        return broken

    def resume(self, machine_id: str, state: MachineState, operation: str, now: float) -> None:
        """A machine that a former process left on its way: no shard has been told how that call ends."""
        for kind, through in _THROUGH.items():
            if state is through and operation:
                self._await(Call(kind, machine_id, "", 0, 0, "", now, operation=operation))

    def restore(self, shard: str, machine_id: str, stamp: Stamp) -> None:
        """A call that a former process has accepted."""
        self._owners[machine_id] = shard
        key = (shard, machine_id)
        self._marks[key] = max(stamp, self._marks.get(key, stamp))

    def struck(self, machine_id: str) -> None:
        if machine_id in self._untold:
            self._struck.add(machine_id)

    def tell(self, machine_id: str, state: int | None) -> None:
        """A shard was told that the machine is in `state`; None: that there is no such machine."""
        for call in self._asked.get(machine_id, ()):
            call.told = call.told or state == _TARGET[call.kind]
        untold = self._untold.get(machine_id)
        if untold is None or state == _THROUGH[untold.kind]:
            return
        ends = (None, MachineState.FAILED, _TARGET[untold.kind])
        # Any other state is an answer that was under way before the call, unless the machine took another road.
        if state in ends or machine_id in self._struck:
            self._forget(machine_id)

    def oldest_seconds(self, kind: str, now: float) -> float:
        since = next(iter(self._since[kind].values()), now)
        return max(0.0, now - since)

    def _order(self, call: Call) -> list[str]:
        broken = []
        stamp = (call.epoch, call.sequence)
        # Only what was accepted before this call arrived: of two at once, either may be the first.
        if call.mark is not None and stamp <= call.mark:
            broken.append("fence_broken")
        owner = self._owners.get(call.machine_id, call.shard)
        if owner != call.shard:
            broken.append("two_owners")
        self.restore(call.shard, call.machine_id, stamp)
        return broken

    def _answered(self, call: Call) -> None:
        waiting = self._asked[call.machine_id]
        waiting[:] = [one for one in waiting if one is not call]
        if not waiting:
            del self._asked[call.machine_id]

    def _await(self, call: Call) -> None:
        self._forget(call.machine_id)
        self._untold[call.machine_id] = call
        self._since[call.kind][call.machine_id] = call.arrived

    def _forget(self, machine_id: str) -> None:
        self._struck.discard(machine_id)
        call = self._untold.pop(machine_id, None)
        if call:
            self._since[call.kind].pop(machine_id, None)

"""The machines that the provider says it has given to this cluster: these may have Nodes, and no others. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bigfleet.api.v1alpha1.phonehome_pb2 import MachineWord, MachineWords
from bigfleet.core.quantity import QuantityError
from bigfleet.core.vectors import parse_vector, positive
from scaletest.cluster.nodes.trims import Promise
from scaletest.model.labels import INSTANCE_TYPE_KEY, ZONE_KEY


@dataclass(frozen=True)
class VouchedMachine:
    """A machine in the provider's words."""

    binding: str
    """Another one each time that the machine is given: the Node of an earlier one is not this machine's."""
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]
    """With instance type and zone, as a Node carries them."""

    @classmethod
    def of(cls, word: MachineWord) -> "VouchedMachine":
        places = {INSTANCE_TYPE_KEY: word.instance_type, ZONE_KEY: word.zone}
        labels = dict(word.labels) | {key: value for key, value in places.items() if value}
        return cls(word.binding, dict(word.allocatable), labels)

    def contradicts(self, promise: Promise) -> bool:
        """Whether an UpcomingNode promises another machine than this."""
        if promise.labels != self.labels:
            return True
        try:
            return positive(parse_vector(promise.resources)) != positive(parse_vector(self.allocatable))
        except QuantityError:
            return True


class Vouched:
    """What the provider said last. It stays known while no stream is open; a full frame replaces it."""

    def __init__(self) -> None:
        # Whether a full frame has come; before that it is unknown which Nodes are too many.
        self.heard = False
        self._machines: dict[str, VouchedMachine] = {}
        # Machines that the provider gave and took back: BigFleet may not know yet.
        self._withdrawn: set[str] = set()

    def get(self, machine_id: str) -> VouchedMachine | None:
        return self._machines.get(machine_id)

    def hear(self, frame: MachineWords) -> Iterable[str]:
        """Take a frame in: the machines of which it says something new."""
        said = {word.machine_id: None if word.gone else VouchedMachine.of(word) for word in frame.machines}
        if frame.full:
            said = dict.fromkeys(self._machines.keys() - said.keys()) | said
            self.heard = True
        changed = [machine_id for machine_id, machine in said.items() if self._machines.get(machine_id) != machine]
        for machine_id in changed:
            self._put(machine_id, said[machine_id])
        return changed

    def disowns(self, machine_id: str, binding: str) -> bool:
        """Whether a Node of this binding has no machine any more."""
        machine = self._machines.get(machine_id)
        return self.heard and (machine is None or machine.binding != binding)

    def never_gave(self, machine_id: str) -> bool:
        return self.heard and machine_id not in self._machines and machine_id not in self._withdrawn

    def took_back(self, machine_id: str) -> bool:
        return machine_id in self._withdrawn

    def forget(self, machine_id: str) -> None:
        """BigFleet does not speak of this machine any more."""
        self._withdrawn.discard(machine_id)

    def _put(self, machine_id: str, machine: VouchedMachine | None) -> None:
        if machine is None:
            self._machines.pop(machine_id, None)
            self._withdrawn.add(machine_id)
        else:
            self._machines[machine_id] = machine
            self._withdrawn.discard(machine_id)

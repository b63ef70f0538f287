"""What happens to the fake's machines, told to the observers in the order in which it happens."""

from collections.abc import Set as AbstractSet

from bigfleet.provider.kit import MachineRecord


class Observer:
    """Is told of every event and does nothing. Subclasses override what they need."""

    def created(self, machine: MachineRecord) -> None:
        """A Create is done: the machine stands idle."""

    def configuring(self, machine: MachineRecord) -> None:
        """A Configure was accepted: the machine is `machine.cluster`'s from now on."""

    def carried_out(self, machine_id: str) -> None:
        """The machine has all that it needs to join: only its node is missing."""

    def gave_up(self, machine: MachineRecord) -> None:
        """The Configure of `machine.operation` failed, or its node was not Ready in time."""

    def draining(self, machine: MachineRecord) -> None:
        """A Drain was accepted."""

    def left(self, machine: MachineRecord) -> None:
        """The machine is no longer in its cluster."""

    def struck(self, machine: MachineRecord, fault: str) -> None:
        """The machine, as it was until now, is taken away: `lost`, `interrupted` or `vanished`."""

    def opened(self, cluster: str, ready: AbstractSet[str], unready: AbstractSet[str]) -> None:
        """A cluster reports again: these are its nodes, Ready or not; the changes before were not reported."""

    def arrived(self, cluster: str, machine_id: str) -> None:
        """The machine's node is Ready in the cluster; also told of one that was Ready before."""

    def departed(self, cluster: str, machine_id: str, gone: bool) -> None:
        """The machine's node was Ready in the last report and is not in this one; `gone`: there is no Node."""


class Observers(Observer):
    """Several, told in turn."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def created(self, machine: MachineRecord) -> None:
        for one in self._observers:
            one.created(machine)

    def configuring(self, machine: MachineRecord) -> None:
        for one in self._observers:
            one.configuring(machine)

    def carried_out(self, machine_id: str) -> None:
        for one in self._observers:
            one.carried_out(machine_id)

    def gave_up(self, machine: MachineRecord) -> None:
        for one in self._observers:
            one.gave_up(machine)

    def draining(self, machine: MachineRecord) -> None:
        for one in self._observers:
            one.draining(machine)

    def left(self, machine: MachineRecord) -> None:
        for one in self._observers:
            one.left(machine)

    def struck(self, machine: MachineRecord, fault: str) -> None:
        for one in self._observers:
            one.struck(machine, fault)

    def opened(self, cluster: str, ready: AbstractSet[str], unready: AbstractSet[str]) -> None:
        for one in self._observers:
            one.opened(cluster, ready, unready)

    def arrived(self, cluster: str, machine_id: str) -> None:
        for one in self._observers:
            one.arrived(cluster, machine_id)

    def departed(self, cluster: str, machine_id: str, gone: bool) -> None:
        for one in self._observers:
            one.departed(cluster, machine_id, gone)

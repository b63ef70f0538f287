"""What each cluster has been told of its machines, and what it must still be told (spec/engine.md §3.15)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bigfleet.core.machines import Machine, MachineState


@dataclass(frozen=True)
class Notice:
    """One word to a cluster about a machine. `removed`: it is no longer in or on its way to the cluster."""

    cluster: str
    machine: Machine
    node_name: str
    removed: bool


class Notices:
    """Compares a machine with what its cluster was last told, and sends the difference.

    A cluster hears of a machine from the moment the provider has accepted it for the cluster until it has left,
    whichever way it leaves; a Failed machine stays its cluster's until it recovers or vanishes.
    """

    def __init__(self, send: Callable[[Notice], None], node_name_prefix: str) -> None:
        self._send = send
        self._prefix = node_name_prefix
        self._told: dict[str, Machine] = {}
        self._by_cluster: dict[str, set[str]] = {}

    def node_name(self, machine_id: str) -> str:
        return self._prefix + machine_id

    def tell(self, machine: Machine) -> None:
        """The machine is as given now."""
        told = self._told.get(machine.id)
        if told and not machine.cluster and machine.state is MachineState.FAILED:
            machine = replace(machine, cluster=told.cluster)
        if told and told.cluster != machine.cluster:
            self._forget(told)
            self._notify(machine, told.cluster, removed=True)
        if not machine.cluster:
            return
        self._told[machine.id] = machine
        self._by_cluster.setdefault(machine.cluster, set()).add(machine.id)
        if told is None or told.cluster != machine.cluster or _visible(told) != _visible(machine):
            self._notify(machine, machine.cluster, removed=False)

    def gone(self, machine_id: str) -> None:
        """The machine has left the inventory."""
        told = self._told.get(machine_id)
        if told:
            self._forget(told)
            self._notify(told, told.cluster, removed=True)

    def drop(self, machine_id: str) -> None:
        """The machine is no longer ours to speak of."""
        told = self._told.get(machine_id)
        if told:
            self._forget(told)

    def resync(self, cluster: str) -> None:
        """Tell a new session of every machine of its cluster."""
        for machine_id in sorted(self._by_cluster.get(cluster, ())):
            self._notify(self._told[machine_id], cluster, removed=False)

    def _forget(self, told: Machine) -> None:
        del self._told[told.id]
        self._by_cluster[told.cluster].discard(told.id)

    def _notify(self, machine: Machine, cluster: str, removed: bool) -> None:
        self._send(Notice(cluster, machine, self.node_name(machine.id), removed))


def _visible(machine: Machine) -> tuple[object, ...]:
    """What a NodeStateUpdate shows of a machine."""
    return (
        machine.state,
        machine.host,
        machine.last_error,
        machine.instance_type,
        machine.zone,
        machine.labels,
        machine.allocatable,
    )

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


# What is kept of a word: digest, state and cluster in one number, because a shard tells half a million machines.
_STATE_BITS = 4
_CLUSTER_BITS = 24
_DIGEST_MASK = 2**32 - 1


class _Clusters:
    """Names as small numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []

    def number(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


class Notices:
    """Compares a machine with what its cluster was last told, and sends the difference.

    A cluster hears of a machine from the moment the provider has accepted it for the cluster until it has left,
    whichever way it leaves; a Failed machine stays its cluster's until it recovers or vanishes.
    """

    def __init__(
        self, send: Callable[[Notice], None], node_name_prefix: str, lookup: Callable[[str], Machine | None]
    ) -> None:
        """`lookup` finds a machine as it is now, for a session that has to hear of it again."""
        self._send = send
        self._prefix = node_name_prefix
        self._lookup = lookup
        self._clusters = _Clusters()
        self._told: dict[str, int] = {}
        self._by_cluster: dict[str, set[str]] = {}

    def node_name(self, machine_id: str) -> str:
        return self._prefix + machine_id

    def tell(self, machine: Machine) -> None:
        """The machine is as given now."""
        told = self._told.get(machine.id)
        before = self._cluster(told)
        if before and not machine.cluster and machine.state is MachineState.FAILED:
            machine = replace(machine, cluster=before)
        if before and before != machine.cluster:
            self._forget(machine.id, before)
            self._notify(machine, before, removed=True)
        if not machine.cluster:
            return
        word = self._word(machine)
        if word == told:
            return
        self._told[machine.id] = word
        self._by_cluster.setdefault(machine.cluster, set()).add(machine.id)
        self._notify(machine, machine.cluster, removed=False)

    def gone(self, machine: Machine) -> None:
        """The machine, as it was last, has left the inventory."""
        before = self._cluster(self._told.get(machine.id))
        if before:
            self._forget(machine.id, before)
            self._notify(machine, before, removed=True)

    def drop(self, machine_id: str) -> None:
        """The machine is no longer ours to speak of."""
        before = self._cluster(self._told.get(machine_id))
        if before:
            self._forget(machine_id, before)

    def resync(self, cluster: str) -> None:
        """Tell a new session of every machine of its cluster."""
        for machine_id in sorted(self._by_cluster.get(cluster, ())):
            machine = self._lookup(machine_id)
            if machine:
                self._notify(replace(machine, cluster=cluster), cluster, removed=False)

    def _word(self, machine: Machine) -> int:
        digest = hash(_visible(machine)) & _DIGEST_MASK
        return (digest << _STATE_BITS | machine.state) << _CLUSTER_BITS | self._clusters.number(machine.cluster)

    def _cluster(self, word: int | None) -> str:
        """Whom a word was for; empty if there was none."""
        return "" if word is None else self._clusters.names[word & 2**_CLUSTER_BITS - 1]

    def _forget(self, machine_id: str, cluster: str) -> None:
        del self._told[machine_id]
        self._by_cluster[cluster].discard(machine_id)

    def _notify(self, machine: Machine, cluster: str, removed: bool) -> None:
        self._send(Notice(cluster, machine, self.node_name(machine.id), removed))


def _visible(machine: Machine) -> tuple[object, ...]:
    """What a NodeStateUpdate shows of a machine, beside its state."""
    return (
        machine.host,
        machine.last_error,
        machine.instance_type,
        machine.zone,
        frozenset(machine.labels.items()),
        frozenset(machine.allocatable.items()),
    )

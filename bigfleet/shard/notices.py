"""What each cluster has been told of its machines, and what it must still be told.

See docs/reference/wire.md#node-states.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine.columns.names import Names
from bigfleet.engine.columns.texts import Texts


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
_CLUSTER_MASK = 2**_CLUSTER_BITS - 1
_DIGEST_MASK = 2**32 - 1
# No machine is told in no state.
_NO_WORD = 0


class _Words:
    """Machine id → the last word about it, in columns: a dict of them takes four times as much."""

    def __init__(self) -> None:
        self._ids = Texts()
        self._words = array("Q")

    def get(self, machine_id: str) -> int:
        number = self._ids.find(machine_id)
        return self._words[number] if number >= 0 else _NO_WORD

    def __setitem__(self, machine_id: str, word: int) -> None:
        number = self._ids.hold(machine_id)
        if number == len(self._words):
            self._words.append(_NO_WORD)
        if self._words[number] != _NO_WORD:
            self._ids.drop(number)  # it is held once
        self._words[number] = word

    def __delitem__(self, machine_id: str) -> None:
        number = self._ids.find(machine_id)
        self._words[number] = _NO_WORD
        self._ids.drop(number)

    def of_cluster(self, cluster: int) -> list[str]:
        """The ids of the machines that this cluster was told of, in order; −1 is a cluster that never was."""
        if cluster < 0:
            return []
        words = np.frombuffer(self._words, np.uint64)
        numbers = np.flatnonzero((words & np.uint64(_CLUSTER_MASK) == cluster) & (words != _NO_WORD))
        return sorted(map(self._ids.text, numbers.tolist()))


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
        self._clusters = Names()
        self._told = _Words()

    def node_name(self, machine_id: str) -> str:
        return self._prefix + machine_id

    def tell(self, machine: Machine) -> None:
        """The machine is as given now."""
        told = self._told.get(machine.id)
        before = self._cluster(told)
        if before and not machine.cluster and machine.state is MachineState.FAILED:
            machine = replace(machine, cluster=before)
        if before and before != machine.cluster:
            del self._told[machine.id]
            self._notify(machine, before, removed=True)
        if not machine.cluster:
            return
        word = self._word(machine)
        if word == told:
            return
        self._told[machine.id] = word
        self._notify(machine, machine.cluster, removed=False)

    def gone(self, machine: Machine) -> None:
        """The machine, as it was last, has left the inventory."""
        before = self._cluster(self._told.get(machine.id))
        if before:
            del self._told[machine.id]
            self._notify(machine, before, removed=True)

    def drop(self, machine_id: str) -> None:
        """The machine is no longer ours to speak of."""
        if self._told.get(machine_id):
            del self._told[machine_id]

    def resync(self, cluster: str) -> None:
        """Tell a new session of every machine of its cluster."""
        for machine_id in self._told.of_cluster(self._clusters.find(cluster)):
            machine = self._lookup(machine_id)
            if machine:
                self._notify(replace(machine, cluster=cluster), cluster, removed=False)

    def _word(self, machine: Machine) -> int:
        digest = hash(_visible(machine)) & _DIGEST_MASK
        return (digest << _STATE_BITS | machine.state) << _CLUSTER_BITS | self._clusters.number(machine.cluster)

    def _cluster(self, word: int) -> str:
        """The cluster that a word was for; empty if there was none."""
        return "" if word == _NO_WORD else self._clusters.texts[word & _CLUSTER_MASK]

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

"""What a cluster hears of its machines, whichever way they come and go."""

from dataclasses import replace

from bigfleet.core.machines import Machine, MachineState
from bigfleet.shard.notices import Notice, Notices

IDLE = Machine("m", MachineState.IDLE, host="h", zone="zone-a")
CONFIGURED = replace(IDLE, state=MachineState.CONFIGURED, cluster="c")
FAILED = replace(IDLE, state=MachineState.FAILED, host="", last_error="lost")


class Told:
    """Notices, and what they sent: (cluster, state, removed)."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, str, bool]] = []
        self.machines: dict[str, Machine] = {}
        self.notices = Notices(self._send, "node-", self.machines.get)

    def tell(self, machine: Machine) -> None:
        self.machines[machine.id] = machine
        self.notices.tell(machine)

    def _send(self, notice: Notice) -> None:
        assert notice.node_name == f"node-{notice.machine.id}"
        self.frames.append((notice.cluster, notice.machine.state.label, notice.removed))


def after(*machines: Machine) -> list[tuple[str, str, bool]]:
    told = Told()
    for machine in machines:
        told.tell(machine)
    return told.frames


def test_a_machine_without_a_cluster_concerns_nobody() -> None:
    assert after(IDLE, FAILED, replace(IDLE, state=MachineState.DELETING)) == []


def test_a_state_is_told_once() -> None:
    assert after(CONFIGURED, CONFIGURED) == [("c", "Configured", False)]


def test_new_labels_are_told_and_a_new_price_is_not() -> None:
    assert len(after(CONFIGURED, replace(CONFIGURED, labels={"rack": "r"}))) == 2
    assert len(after(CONFIGURED, replace(CONFIGURED, price_per_hour=9.0))) == 1


def test_a_machine_that_leaves_is_told_to_the_cluster_it_left() -> None:
    assert after(CONFIGURED, IDLE) == [("c", "Configured", False), ("c", "Idle", True)]


def test_a_machine_that_changes_hands_is_told_to_both() -> None:
    frames = after(CONFIGURED, replace(CONFIGURED, cluster="d"))
    assert frames[1:] == [("c", "Configured", True), ("d", "Configured", False)]


def test_a_failed_machine_stays_its_clusters_until_it_recovers() -> None:
    frames = after(CONFIGURED, FAILED, replace(FAILED, state=MachineState.SPECULATIVE, last_error=""))
    assert frames[1:] == [("c", "Failed", False), ("c", "Speculative", True)]


def test_a_vanished_machine_is_told_with_its_last_state() -> None:
    told = Told()
    told.tell(CONFIGURED)
    told.notices.gone(CONFIGURED)
    told.notices.gone(CONFIGURED)
    assert told.frames[1:] == [("c", "Configured", True)]


def test_a_dropped_machine_is_not_spoken_of() -> None:
    told = Told()
    told.tell(CONFIGURED)
    told.notices.drop("m")
    told.notices.resync("c")
    assert len(told.frames) == 1


def test_a_resync_tells_every_machine_of_the_cluster() -> None:
    told = Told()
    for machine_id, cluster in (("b", "c"), ("a", "c"), ("x", "other")):
        told.tell(replace(CONFIGURED, id=machine_id, cluster=cluster))
    told.tell(replace(FAILED, id="b"))
    told.frames.clear()
    told.notices.resync("c")
    assert told.frames == [("c", "Configured", False), ("c", "Failed", False)]

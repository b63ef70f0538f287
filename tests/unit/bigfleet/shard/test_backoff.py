"""Back-off: how long a machine waits, and what the engine sees of it meanwhile."""

import math

import pytest

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine import ActionKind
from bigfleet.shard.provider.backoff import Backoff
from tests.unit.shard_world import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def holds(clock: Clock) -> Backoff:
    return Backoff(clock)


def in_flight(machine_id: str, cluster: str = "c") -> Machine:
    return Machine(machine_id, MachineState.CONFIGURING, host="h", cluster=cluster)


def seen(holds: Backoff, state: MachineState, *machine_ids: str) -> dict[str, MachineState]:
    """The engine's view of machines that are really in `state`."""
    view = {machine_id: Machine(machine_id, state, host="h") for machine_id in machine_ids}
    holds.shape_view(view)
    return {machine_id: machine.state for machine_id, machine in view.items()}


def test_the_wait_doubles_from_one_second_to_a_minute(holds: Backoff, clock: Clock) -> None:
    waits = []
    for _ in range(9):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight("m"))
        waits.append(holds.next_expiry())
        clock.now += waits[-1]
        assert not holds.held("m")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_success_starts_the_wait_anew(holds: Backoff) -> None:
    for _ in range(3):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight("m"))
    holds.forget("m")
    assert not holds.held("m")
    holds.refuse(ActionKind.BOOTSTRAP, in_flight("m"))
    assert holds.next_expiry() == 1


def test_nothing_held_means_nothing_to_wait_for(holds: Backoff) -> None:
    assert holds.next_expiry() == math.inf


@pytest.mark.parametrize("state", [MachineState.IDLE, MachineState.SPECULATIVE])
def test_one_refused_machine_is_hidden_and_another_is_taken(holds: Backoff, clock: Clock, state: MachineState) -> None:
    holds.refuse(ActionKind.BOOTSTRAP, in_flight("m"))
    assert seen(holds, state, "m", "other") == {"other": state}
    clock.now += 1
    assert seen(holds, state, "m", "other") == {"m": state, "other": state}


def test_when_everything_is_refused_the_machines_still_stand_for_their_demand(holds: Backoff) -> None:
    for machine_id in ("a", "b", "d"):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight(machine_id))
    configuring = MachineState.CONFIGURING
    assert seen(holds, MachineState.IDLE, "a", "b", "d") == {"a": configuring, "b": configuring, "d": configuring}
    holds.accepted(ActionKind.BOOTSTRAP, "c")
    assert seen(holds, MachineState.IDLE, "a", "b", "d") == {}


def test_refusals_of_one_kind_say_nothing_of_another(holds: Backoff) -> None:
    for machine_id in ("a", "b", "d"):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight(machine_id))
    holds.accepted(ActionKind.PROVISION, "c")
    assert len(seen(holds, MachineState.IDLE, "a", "b", "d")) == 3


def test_a_cluster_that_is_always_refused_stops_trying_machines_though_another_is_served(holds: Backoff) -> None:
    for machine_id in ("a", "b", "d"):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight(machine_id))
        holds.accepted(ActionKind.BOOTSTRAP, "another")
    assert set(seen(holds, MachineState.IDLE, "a", "b", "d").values()) == {MachineState.CONFIGURING}


def test_refusals_for_several_clusters_are_an_outage_of_the_provider(holds: Backoff) -> None:
    for number, machine_id in enumerate(("a", "b", "d")):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight(machine_id, f"c-{number}"))
    assert len(seen(holds, MachineState.IDLE, "a", "b", "d")) == 3
    holds.accepted(ActionKind.BOOTSTRAP, "another")
    assert seen(holds, MachineState.IDLE, "a", "b", "d") == {}


def test_the_same_machine_refused_often_is_no_outage(holds: Backoff) -> None:
    for _ in range(5):
        holds.refuse(ActionKind.BOOTSTRAP, in_flight("m"))
    assert seen(holds, MachineState.IDLE, "m") == {}


def test_a_barred_machine_is_held_for_ever_and_never_shown(holds: Backoff, clock: Clock) -> None:
    holds.bar(ActionKind.BOOTSTRAP, "m")
    clock.now += 1e12
    assert holds.held("m")
    assert seen(holds, MachineState.IDLE, "m") == {}


def test_bound_machines_are_always_seen(holds: Backoff) -> None:
    holds.refuse(ActionKind.RECLAIM, in_flight("m"))
    assert seen(holds, MachineState.CONFIGURED, "m") == {"m": MachineState.CONFIGURED}

"""The state machine and the invariants of machines (docs/reference/engine.md#machine-states)."""

import math
from dataclasses import replace

import pytest

from bigfleet.core.machines import LEGAL_EDGES, TRANSITIONAL, CapacityType, Machine, MachineState, invariant_violation

S = MachineState


def sound(state: MachineState) -> Machine:
    return Machine(
        "m-1",
        state,
        price_per_hour=1.0,
        interruption_probability=0.1,
        host="" if state in (S.SPECULATIVE, S.CREATING) else "h",
        cluster="c" if state in (S.CONFIGURING, S.CONFIGURED, S.DRAINING) else "",
        last_error="no quota" if state is S.FAILED else "",
    )


STATES = [state for state in S if state is not S.UNSPECIFIED]


def test_the_edges_are_the_specs() -> None:
    assert {state: set(edges) for state, edges in LEGAL_EDGES.items()} == {
        S.SPECULATIVE: {S.CREATING},
        S.CREATING: {S.IDLE, S.FAILED},
        S.IDLE: {S.CONFIGURING, S.DELETING},
        S.CONFIGURING: {S.CONFIGURED, S.FAILED, S.IDLE},
        S.CONFIGURED: {S.DRAINING},
        S.DRAINING: {S.IDLE, S.FAILED},
        S.DELETING: {S.SPECULATIVE, S.FAILED},
        S.FAILED: set(),
    }


def test_exactly_the_transitional_states_may_fail() -> None:
    assert {state for state, edges in LEGAL_EDGES.items() if S.FAILED in edges} == set(TRANSITIONAL)


@pytest.mark.parametrize("state", STATES)
def test_a_sound_machine_breaks_no_invariant(state: MachineState) -> None:
    assert invariant_violation(sound(state)) is None


@pytest.mark.parametrize("price", [-0.01, math.nan, math.inf, -math.inf])
def test_a_price_is_finite_and_not_negative(price: float) -> None:
    violation = invariant_violation(replace(sound(S.IDLE), price_per_hour=price))
    assert violation is not None
    assert violation[0] == "price"


@pytest.mark.parametrize("probability", [-0.01, 1.01, math.nan])
def test_a_probability_is_one(probability: float) -> None:
    violation = invariant_violation(replace(sound(S.IDLE), interruption_probability=probability))
    assert violation is not None
    assert violation[0] == "interruption_probability"


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (replace(sound(S.IDLE), id=""), "no id"),
        (replace(sound(S.IDLE), state=S.UNSPECIFIED), "unspecified"),
        (replace(sound(S.IDLE), allocatable={"cpu": 1, "memory": -1}), "allocatable['memory'] is negative"),
        (replace(sound(S.SPECULATIVE), host="h"), "has a host"),
        (replace(sound(S.CREATING), cluster="c"), "or a cluster"),
        (replace(sound(S.IDLE), host=""), "Idle machine has no host"),
        (replace(sound(S.CONFIGURING), host=""), "no host"),
        (replace(sound(S.DELETING), host=""), "no host"),
        (replace(sound(S.CONFIGURED), host=""), "no host"),
        (replace(sound(S.CONFIGURED), cluster=""), "no cluster"),
        (replace(sound(S.DRAINING), cluster=""), "no cluster"),
        (replace(sound(S.FAILED), last_error=""), "no last_error"),
    ],
)
def test_a_broken_structure_is_named(machine: Machine, says: str) -> None:
    violation = invariant_violation(machine)
    assert violation is not None
    assert violation[0] == "structural"
    assert says in violation[1]


def test_names_are_spelled_as_in_metrics_and_seed_files() -> None:
    assert [state.label for state in (S.SPECULATIVE, S.CONFIGURED)] == ["Speculative", "Configured"]
    assert [kind.label for kind in CapacityType if kind] == ["BareMetal", "Reserved", "OnDemand", "Spot"]


def test_wire_numbers() -> None:
    assert [int(state) for state in STATES] == list(range(1, 9))
    assert [int(kind) for kind in CapacityType] == list(range(5))


def test_machines_can_stand_in_sets() -> None:
    assert len({sound(S.IDLE), sound(S.IDLE), sound(S.CONFIGURED)}) == 2

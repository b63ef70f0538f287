"""What each cluster holds, kept by step, is what a count of all its machines gives."""

import contextlib
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core.machines import Machine, MachineState, invariant_violation
from bigfleet.shard.inventory.holdings import Holding, Holdings
from bigfleet.shard.inventory.inventory import Inventory, Rejected

STATES = [state for state in MachineState if state]
IDS = st.sampled_from(["a", "b", "c", "d"])


def described(machine_id: str, state: MachineState, cluster: str, price: float, cpu: int, gpu: int) -> Machine:
    """Sound, whatever the state."""
    hostless = state in (MachineState.SPECULATIVE, MachineState.CREATING)
    bound = state in (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING)
    return Machine(
        machine_id,
        state,
        price_per_hour=price,
        allocatable={"cpu": cpu} | ({"gpu": gpu} if gpu else {}),
        host="" if hostless else "h",
        cluster=cluster if bound else "",
        last_error="lost" if state is MachineState.FAILED else "",
    )


MACHINES = st.builds(
    described,
    IDS,
    st.sampled_from([*STATES, MachineState.CONFIGURED, MachineState.CONFIGURED]),
    st.sampled_from(["c1", "c2"]),
    st.sampled_from([0.0, 0.1, 0.192, 0.3, -1.0, 1e300]),
    st.integers(0, 8_000),
    st.integers(0, 8),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), MACHINES),
        st.tuples(st.just("restore"), MACHINES.filter(lambda machine: invariant_violation(machine) is None)),
        st.tuples(st.just("vanish"), IDS),
        st.tuples(st.just("forget"), IDS),
        st.tuples(st.just("drain"), IDS),
        st.tuples(st.just("lend"), st.lists(MACHINES, max_size=3)),
        st.tuples(st.just("disguise"), IDS),
    ),
    max_size=40,
)


def observe(inventory: Inventory, machine: Machine) -> None:
    with contextlib.suppress(Rejected):
        inventory.observe(machine)


def take(inventory: Inventory, step: str, what: object) -> None:
    match step, what:
        case "observe", Machine() as machine:
            observe(inventory, machine)
        case "restore", Machine() as machine:
            inventory.restore(machine, None)
        case "vanish", str() as machine_id:
            inventory.vanish(machine_id)
        case "forget", str() as machine_id:
            inventory.forget(machine_id)
        case "drain", str() as machine_id:
            known = inventory.machines.get(machine_id)
            if known and known.state is MachineState.CONFIGURED:
                inventory.move(machine_id, MachineState.DRAINING, known.cluster, known.assignment)
        case "lend", list() as machines:
            with inventory.machines.lent():
                for machine in machines:
                    observe(inventory, machine)
        case "disguise", str() as machine_id:
            inventory.machines.disguise({machine_id: None})


def recounted(inventory: Inventory) -> Holdings:
    fresh = Holdings()
    for machine in inventory.machines.values():
        fresh.count(machine, 1)
    return fresh


def without_zeros(holdings: Holdings) -> dict[str, Holding]:
    return {
        cluster: replace(
            holding, allocatable=Counter({name: milli for name, milli in holding.allocatable.items() if milli})
        )
        for cluster, holding in holdings.by_cluster.items()
        if holding.machines or any(holding.allocatable.values()) or holding.nano_dollars_per_hour
    }


@given(STEPS)
def test_it_agrees_with_a_recount_after_every_step(steps: list[tuple[str, object]]) -> None:
    inventory = Inventory(lambda: 0.0)
    for step, what in steps:
        take(inventory, step, what)
        assert without_zeros(inventory.holdings) == without_zeros(recounted(inventory))


@given(STEPS)
def test_whoever_looks_at_the_changed_clusters_only_misses_nothing(steps: list[tuple[str, object]]) -> None:
    inventory = Inventory(lambda: 0.0)
    seen: dict[str, int] = {}
    for step, what in steps:
        take(inventory, step, what)
        for cluster in inventory.holdings.changed:
            seen[cluster] = inventory.holdings.by_cluster[cluster].machines
        inventory.holdings.changed.clear()
        assert seen == {cluster: holding.machines for cluster, holding in inventory.holdings.by_cluster.items()}


def test_prices_add_up_to_dollars_and_leave_nothing_behind() -> None:
    holdings = Holdings()
    machines = [Machine(str(number), MachineState.CONFIGURED, price_per_hour=0.1, cluster="c") for number in range(10)]
    for machine in machines:
        holdings.count(machine, 1)
    assert holdings.by_cluster["c"].dollars_per_hour == 1.0
    for machine in machines:
        holdings.count(machine, -1)
    assert holdings.by_cluster["c"] == Holding()


def test_a_price_without_sense_does_not_end_the_count() -> None:
    holdings = Holdings()
    holdings.count(Machine("m", MachineState.CONFIGURED, price_per_hour=1.7e308, cluster="c"), 1)
    assert holdings.by_cluster["c"].dollars_per_hour == 1e9

"""Gangs that fit on one machine become plain demand (docs/reference/engine.md#folding)."""

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import ZONE_KEY
from tests.oracle.fold import fold
from tests.oracle.snapshot import Snapshot
from tests.unit.engine_world import configured, cpu, machine, need, of_type, profile, same

GANG = profile(same())
PLAIN = GANG.without_same()


def folded(needs: list[Need], *machines: Machine) -> list[Need]:
    return fold(needs, Snapshot(machines))


def gang(group: str = "g", units: float = 4, cluster: str = "c1", arrival: float = 0.0) -> Need:
    return need(cpu(units), cpu(1), of=GANG, group=group, cluster=cluster, arrival=arrival)


def test_without_gangs_the_needs_pass_untouched() -> None:
    needs = [need(cpu(4)), need(cpu(8), cluster="c0")]
    assert folded(needs, machine("m", rack="r1")) == needs


def test_a_gang_that_a_free_machine_can_hold_is_folded() -> None:
    for state in (MachineState.IDLE, MachineState.SPECULATIVE):
        (one,) = folded([gang()], machine("m", state, rack="r1"))
        assert one == Need("c1", PLAIN, cpu(4), cpu(4), "", 0.0)


def test_a_machine_bound_to_the_own_cluster_counts_and_another_clusters_does_not() -> None:
    for state in (MachineState.CONFIGURED, MachineState.CONFIGURING):
        assert folded([gang()], machine("m", state, cluster="c1", rack="r1")) != [gang()]
        assert folded([gang()], machine("m", state, cluster="c2", rack="r1")) == [gang()]


def test_machines_on_their_way_out_hold_no_gang() -> None:
    for state in (MachineState.DRAINING, MachineState.FAILED, MachineState.DELETING):
        assert folded([gang()], machine("m", state, cluster="c1", rack="r1")) == [gang()]


def test_a_machine_being_created_counts_only_for_the_folded_need_it_is_for() -> None:
    assert folded([gang()], machine("m", MachineState.CREATING, rack="r1", of=PLAIN)) != [gang()]
    assert folded([gang()], machine("m", MachineState.CREATING, rack="r1", of=profile(priority=7))) == [gang()]


def test_a_machine_must_cover_the_whole_gang_and_match_it_with_its_same_key() -> None:
    assert folded([gang()], machine("m", allocatable=cpu(3.999), rack="r1")) == [gang()]
    assert folded([gang()], machine("m")) == [gang()], "the machine has no rack"


def test_equal_gangs_of_a_cluster_merge_and_the_earliest_arrival_stays() -> None:
    gangs = [gang("a", arrival=9), gang("b", arrival=3), gang("c", arrival=5)]
    assert folded(gangs, machine("m", rack="r1")) == [Need("c1", PLAIN, cpu(12), cpu(4), "", 3)]


def test_gangs_with_different_same_keys_merge_once_the_key_is_gone() -> None:
    in_zone = need(cpu(4), of=profile(same(ZONE_KEY)), group="z")
    assert folded([gang(), in_zone], machine("m", rack="r1")) == [Need("c1", PLAIN, cpu(8), cpu(4))]


def test_clusters_and_aggregates_and_profiles_stay_apart() -> None:
    other = need(cpu(4), of=profile(same(), of_type("m6i.large")), group="t")
    gangs = [gang("a"), gang("b", units=2), gang("c", cluster="c2"), other]
    assert len(folded(gangs, machine("m", rack="r1"))) == 4


def test_a_zero_dimension_makes_no_difference_between_aggregates() -> None:
    with_zero = need({"cpu": 4000, "memory": 0}, of=GANG, group="z")
    assert folded([gang(), with_zero], machine("m", rack="r1")) == [Need("c1", PLAIN, cpu(8), cpu(4))]


def test_what_passes_comes_first_then_the_folded_by_cluster_fingerprint_and_aggregate() -> None:
    big, plain = gang("big", units=40), need(cpu(1), cluster="c9")
    needs = [gang("a", units=3, cluster="c2"), big, gang("b", units=4), plain, gang("c", units=2)]
    result = folded(needs, machine("m", rack="r1"))
    assert result[:2] == [big, plain]
    assert [(one.cluster, one.aggregate) for one in result[2:]] == [("c1", cpu(2)), ("c1", cpu(4)), ("c2", cpu(3))]


def test_bound_machines_of_a_folded_gang_serve_whole_gangs_only() -> None:
    """min_unit of the folded need is one gang: a machine too small for a gang does not count for it."""
    (one,) = folded([gang("a"), gang("b")], configured("m", rack="r1"))
    assert one.min_unit == cpu(4)
    assert one.aggregate == cpu(8)

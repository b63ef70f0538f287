from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from bigfleet.core.machines import MachineState
from bigfleet.core.requirements import RACK_KEY
from bigfleet.scheduling.placement import used_share
from bigfleet.sim.world.cluster import ClusterModel
from tests.unit.sim_world import fleet, lone_cluster, machine, pod, run_cycles, simulate

READY = MachineState.CONFIGURED


def test_pods_go_where_least_is_allocated() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"), machine(1, READY, "c"), machine(2, READY, "c", cores=8))
    cluster.create("web", pod(), 8)
    cluster.bind()
    assert dict(cluster.controllers["web"].placed) == {"m-000": 2, "m-001": 2, "m-002": 4}


def test_pods_that_find_no_room_wait_for_a_node() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"))
    cluster.create("web", pod(cores=3), 2)
    cluster.bind()
    assert (cluster.bound, cluster.pending) == (1, 1)
    cluster.node_ready(machine(1, READY, "c"))
    cluster.bind()
    assert (cluster.bound, cluster.pending) == (2, 0)


def test_the_more_important_pods_are_placed_first() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"))
    cluster.create("batch", pod(cores=4, priority=100), 1)
    cluster.create("urgent", pod(cores=4, priority=1000), 1)
    cluster.bind()
    assert cluster.controllers["urgent"].bound == 1
    assert cluster.controllers["batch"].pending == 1


def test_a_gang_follows_its_first_member_or_waits() -> None:
    # Rack 0 has one node, rack 1 has two; the first member goes to rack 0, because ties go by arrival.
    cluster, _ = lone_cluster(machine(0, READY, "c"), machine(1, READY, "c"), machine(7, READY, "c"))
    cluster.create("gang", pod(cores=4, gang=RACK_KEY), 2)
    cluster.bind()
    assert (cluster.bound, cluster.pending) == (1, 1)


def test_a_gang_that_is_placed_whole_begins_where_all_of_it_fits() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"), machine(1, READY, "c"), machine(7, READY, "c"))
    cluster.create("gang", pod(cores=4, gang=RACK_KEY), 2)
    cluster.fill()
    assert dict(cluster.controllers["gang"].placed) == {"m-001": 1, "m-007": 1}


def test_the_first_fill_goes_to_the_nodes_that_are_meant_for_it_then_anywhere() -> None:
    mine = replace(machine(1, READY, "c"), labels={"for": "web"})
    cluster, _ = lone_cluster(machine(0, READY, "c"), mine)
    cluster.create("web", pod(), 5)
    cluster.fill("for")
    assert dict(cluster.controllers["web"].placed) == {"m-001": 4, "m-000": 1}


def test_a_hard_spread_leaves_pods_pending_rather_than_skewed() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"), machine(3, READY, "c"), machine(1, READY, "c", cores=1))
    cluster.create("api", pod(skew=1), 5)
    cluster.bind()
    placed = cluster.controllers["api"].placed
    zones = {"zone-a": placed["m-000"] + placed["m-003"], "zone-b": placed["m-001"]}
    assert zones == {"zone-a": 2, "zone-b": 1}
    assert cluster.pending == 2


def test_a_hard_spread_counts_the_pods_of_its_own_controller() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c", cores=12), machine(1, READY, "c", cores=6))
    cluster.create("there", replace(pod(), kind="web"), 9)
    cluster.bind()
    assert dict(cluster.controllers["there"].placed) == {"m-000": 6, "m-001": 3}
    cluster.create("api", replace(pod(skew=1), kind="web"), 4)
    cluster.bind()
    assert dict(cluster.controllers["api"].placed) == {"m-000": 2, "m-001": 2}


def test_a_hard_spread_counts_the_pods_of_all_that_are_counted_together() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c", cores=16), machine(1, READY, "c", cores=4))

    def nodes() -> Counter[str]:
        return Counter(node for one in cluster.controllers.values() for node in one.placed.elements())

    for name in ("a", "b", "c", "d"):
        cluster.create(name, replace(pod(skew=1), counted_with="api"), 1)
    cluster.bind()
    assert nodes() == {"m-000": 2, "m-001": 2}
    gone = [name for name, one in cluster.controllers.items() if "m-001" in one.placed]
    for name in gone:
        cluster.delete(name)
    cluster.create("e", replace(pod(skew=1), counted_with="api"), 2)
    cluster.bind()
    assert nodes() == {"m-000": 2, "m-001": 2}


def test_the_pods_of_a_drained_node_are_evicted_and_come_back() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"), machine(1, READY, "c"))
    cluster.create("web", pod(), 4)
    cluster.bind()
    cluster.node_drained("m-000")
    cluster.bind()
    assert (cluster.evicted, cluster.bound, cluster.pods) == (2, 4, 4)
    assert dict(cluster.controllers["web"].placed) == {"m-001": 4}


def test_without_controllers_an_evicted_pod_never_comes_back() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"), model=ClusterModel(controller_managed=False))
    cluster.create("web", pod(), 4)
    cluster.bind()
    cluster.node_drained("m-000")
    assert cluster.pods == 0
    assert cluster.rollup() == []


def test_the_pods_of_a_lost_node_are_given_up_after_a_while_and_take_no_new_ones() -> None:
    cluster, timeline = lone_cluster(
        machine(0, READY, "c"), machine(1, READY, "c"), model=ClusterModel(lost_pod_seconds=50)
    )
    cluster.create("web", pod(), 2)
    cluster.bind()
    cluster.node_lost("m-000")
    cluster.create("late", pod(), 3)
    cluster.bind()
    assert dict(cluster.controllers["late"].placed) == {"m-001": 3}
    timeline.run_until(49)
    assert cluster.controllers["web"].placed["m-000"] == 1
    timeline.run_until(50)
    assert (cluster.killed, cluster.pods, cluster.pending) == (1, 5, 1)


def test_the_pods_of_lost_nodes_can_be_ended_one_after_the_other() -> None:
    cluster, timeline = lone_cluster(
        machine(0, READY, "c"),
        machine(1, READY, "c"),
        model=ClusterModel(lost_pod_seconds=30, lost_pod_pause_seconds=1),
    )
    cluster.create("web", pod(), 6)
    cluster.bind()
    cluster.node_lost("m-000")
    cluster.node_lost("m-001")
    for second, killed in ((29, 0), (30, 1), (31, 2), (34, 5), (35, 6), (99, 6)):
        timeline.run_until(second)
        assert cluster.killed == killed
    assert (cluster.pods, cluster.pending) == (6, 6)


def test_a_node_that_is_back_before_its_pods_were_given_up_is_a_new_node() -> None:
    cluster, timeline = lone_cluster(machine(0, READY, "c"), model=ClusterModel(lost_pod_seconds=50))
    cluster.create("web", pod(), 2)
    cluster.bind()
    cluster.node_lost("m-000")
    timeline.run_until(10)
    cluster.node_ready(machine(0, READY, "c"))
    cluster.bind()
    timeline.run_until(100)
    assert (cluster.killed, cluster.bound) == (2, 2)


def test_the_rollup_counts_all_pods_whether_bound_or_not() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"))
    cluster.create("web", pod(cores=2), 3)
    cluster.create("other", pod(cores=3), 1)
    cluster.bind()
    (need,) = cluster.rollup()
    assert (need.aggregate, need.min_unit) == ({"cpu": 9000}, {"cpu": 3000})


def test_gangs_are_needs_of_their_own() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"))
    cluster.create("web", pod(), 1)
    cluster.create("gang", pod(gang=RACK_KEY), 1)
    assert sorted(need.group for need in cluster.rollup()) == ["", f"{RACK_KEY}\x00test"]


def test_churn_replaces_pods_and_keeps_their_number() -> None:
    cluster, timeline = lone_cluster(machine(0, READY, "c"), model=ClusterModel(recreate_seconds=1))
    cluster.create("web", pod(), 4)
    cluster.bind()
    cluster.delete_pod(Random(1))
    assert cluster.pods == 3
    timeline.run_until(1)
    assert (cluster.pods, cluster.bound) == (4, 4)


def test_scaling_down_ends_waiting_pods_first() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"))
    cluster.create("web", pod(), 6)
    cluster.bind()
    cluster.scale("web", 4)
    assert (cluster.bound, cluster.pending) == (4, 0)
    cluster.scale("web", 1)
    assert (cluster.bound, used_share([cluster.nodes.load()])) == (1, 0.25)


def test_how_full_a_fleet_is_counts_machines_not_clusters() -> None:
    demand = {"large": {"web": (pod(cores=2), 6)}, "small": {"web": (pod(), 1)}, "without": {}}
    simulation = simulate(fleet(10), demand)
    run_cycles(simulation, 3)
    # Three full machines, and one with one Pod.
    assert simulation.recorder.samples[-1].used_share == pytest.approx(13 / 16)


def test_rows_of_nodes_long_gone_are_dropped_and_the_rest_stays() -> None:
    cluster, _ = lone_cluster(*(machine(number, READY, "c") for number in range(200)))
    cluster.create("web", pod(cores=4), 200)
    cluster.bind()
    for number in range(180):
        cluster.node_drained(f"m-{number:03}")
    cluster.bind()
    assert (cluster.bound, cluster.pending, len(cluster.nodes.rows)) == (20, 180, 20)
    assert len(cluster.nodes.machines) < 100
    assert used_share([cluster.nodes.load()]) == 1.0


def test_a_pod_that_asks_for_what_no_machine_has_is_refused() -> None:
    cluster, _ = lone_cluster(machine(0, READY, "c"))
    with pytest.raises(ValueError, match=r"no machine offers nvidia\.com/gpu"):
        cluster.nodes.vector({"nvidia.com/gpu": 1000})

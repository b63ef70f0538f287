"""The witness of a cluster: what lives and asks, who has no counterpart, what is covered; and what it did not see."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaletest.cluster.witness.needs import need_of
from scaletest.cluster.witness.seen import SeenNode, SeenPod, SeenRequest
from tests.unit.scaletest.cluster.witness.test_expected import spec_of
from tests.unit.witness_world import ALL, GANG, SPREAD, TEAMED, WEB, World, node, pod, request

RIGHT = msgspec.json.encode(spec_of(WEB)).decode()


@pytest.fixture
def world() -> World:
    return World()


def test_living_pods_ask_for_what_was_drawn(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_pod(None, pod("b"))
    world.witness.on_pod(None, pod("c", SPREAD))
    assert world["demand{cpu,batch,plain,highest}"] == 4.0
    assert world["demand{memory,service,spread,highest}"] == 4 * 2**30
    assert world["demand{cpu,critical,gang,highest}"] == 0, "every part of the course is shown from the start"
    assert world["largest_pod{cpu,critical,gang}"] == 64
    assert (world["pods{lowest}"], world["pods{highest}"], world["pods_due"]) == (0, 3, 20)


def test_a_dip_between_two_scrapes_is_kept_for_ten_seconds(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.wait(20)
    assert world["demand{cpu,batch,plain,lowest}"] == 2.0
    world.witness.on_pod(pod("a"), pod("a", alive=False))
    world.clock.now += 0.3
    world.witness.on_pod(None, pod("b"))
    world.wait(5)
    assert (world["demand{cpu,batch,plain,lowest}"], world["demand{cpu,batch,plain,highest}"]) == (0, 2.0)
    world.wait(10)
    assert world["demand{cpu,batch,plain,lowest}"] == 2.0


def test_a_pod_lives_until_it_is_leaving_and_changes_of_its_status_are_nothing(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_pod(pod("a"), pod("a", node="fake-1"))
    world.witness.on_pod(pod("a", node="fake-1"), pod("a", node="fake-1"))
    assert world["pods{highest}"] == 1
    world.witness.on_pod(pod("a", node="fake-1"), pod("a", node="fake-1", alive=False))
    world.witness.on_pod(pod("a", alive=False), None)
    world.wait(11)
    assert world["pods{highest}"] == 0
    assert world.arrivals == ["web-0"]


def test_a_successor_of_the_same_name_is_another_pod(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_request(None, request("r", "a", RIGHT))
    world.witness.on_pod(pod("a"), pod("b", name="pod-a"))
    assert (world["pods_without_request"], world["requests_without_pod"]) == (1, 1)
    assert world.arrivals == ["web-0", "web-0"]


def test_a_pod_without_a_request_grows_older_until_it_has_one(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.wait(7)
    world.witness.on_pod(None, pod("b"))
    assert (world["pods_without_request"], world["pods_without_request_oldest_seconds"]) == (2, 7)
    world.witness.on_request(None, request("r", "a", RIGHT))
    assert (world["pods_without_request"], world["pods_without_request_oldest_seconds"]) == (1, 0)
    world.witness.on_request(None, request("s", "b", RIGHT))
    assert world["pods_without_request"] == world["requests_without_pod"] == 0


def test_a_request_outlives_its_pod_from_the_pods_end_on(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_request(None, request("r", "a", RIGHT))
    world.wait(50)
    assert world["requests_without_pod_oldest_seconds"] == 0
    world.witness.on_pod(pod("a"), pod("a", alive=False))
    world.wait(4)
    world.witness.on_pod(pod("a", alive=False), None)
    assert (world["requests_without_pod"], world["requests_without_pod_oldest_seconds"]) == (1, 4)
    world.witness.on_request(request("r", "a", RIGHT), request("r", "a", RIGHT, leaving=True))
    assert world["requests_without_pod"] == 0
    world.wait(11)
    assert world["requests{highest}"] == 0


def test_a_request_may_be_seen_before_its_pod(world: World) -> None:
    world.witness.on_request(None, request("r", "a", RIGHT))
    world.wait(1)
    assert world["requests_without_pod_oldest_seconds"] == 1
    world.witness.on_pod(None, pod("a"))
    assert world["requests_without_pod"] == world["pods_without_request"] == 0


def test_a_second_request_of_one_pod_is_one_without_a_pod(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_request(None, request("r", "a", RIGHT))
    world.witness.on_request(None, request("s", "a", RIGHT))
    world.wait(3)
    assert (world["requests_without_pod"], world["requests_without_pod_oldest_seconds"]) == (1, 3)
    world.witness.on_request(request("r", "a", RIGHT), None)
    assert world["requests_without_pod"] == world["pods_without_request"] == 0, "the other one takes its place"
    world.witness.on_request(request("s", "a", RIGHT), None)
    assert world["pods_without_request"] == 1


def test_a_request_that_names_no_pod_has_none(world: World) -> None:
    world.witness.on_request(None, request("r", "", RIGHT))
    world.witness.on_request(None, request("s", "", RIGHT))
    assert world["requests_without_pod"] == 2


def test_wrong_requests_are_counted_by_field_once_for_each_spec(world: World) -> None:
    wrong = RIGHT.replace('"priority":100', '"priority":99')
    assert world["requests_wrong_total{priority}"] == world["requests_wrong_total{owner}"] == 0
    world.witness.on_pod(None, pod("a"))
    world.witness.on_request(None, request("r", "a", wrong))
    world.witness.on_request(request("r", "a", wrong), request("r", "a", wrong, acknowledged=True))
    world.witness.on_request(None, request("s", "b", RIGHT, owner="pod-c"))
    assert world["requests_wrong_total{owner}"] == 0, "nobody knows yet what this Pod should ask for"
    world.witness.on_pod(None, pod("b"))
    assert world["requests_wrong_total{priority}"] == 1
    assert world["requests_wrong_total{owner}"] == 1
    world.witness.on_request(request("r", "a", wrong), request("r", "a", RIGHT))
    assert world["requests_wrong_total{priority}"] == 1
    world.witness.on_request(request("r", "a", RIGHT), request("r", "a", wrong + " "))
    assert world["requests_wrong_total{priority}"] == 2


def test_requests_wait_for_their_acknowledgement_from_first_sight(world: World) -> None:
    world.witness.on_request(None, request("r", "a", RIGHT))
    world.wait(6)
    world.witness.on_request(None, request("s", "b", RIGHT))
    assert (world["requests_unacknowledged"], world["requests_unacknowledged_oldest_seconds"]) == (2, 6)
    world.witness.on_request(request("r", "a", RIGHT), request("r", "a", RIGHT, acknowledged=True))
    assert (world["requests_unacknowledged"], world["requests_unacknowledged_oldest_seconds"]) == (1, 0)
    world.witness.on_request(request("s", "b", RIGHT), None)
    assert world["requests_unacknowledged"] == 0


def test_a_request_that_is_acknowledged_again_is_counted(world: World) -> None:
    first, second = (request("r", "a", RIGHT, acknowledged=True, acknowledged_at=at) for at in ("12:00", "12:10"))
    world.witness.on_request(None, request("r", "a", RIGHT))
    world.witness.on_request(request("r", "a", RIGHT), first)
    world.witness.on_request(first, first)
    assert world["requests_acknowledged_again_total"] == 0
    world.witness.on_request(first, second)
    world.witness.on_request(second, request("r", "a", RIGHT))
    assert world["requests_acknowledged_again_total"] == 2, "to take it back is no better"
    assert world["requests_acknowledged_total"] == 1
    world.witness.on_request(request("r", "a", RIGHT), None)
    assert world["requests_acknowledged_again_total"] == 2


def test_ages_do_not_grow_while_the_witness_does_not_run(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_request(None, request("r", "b", RIGHT))
    world.wait(3)
    world.stand_still(31)
    assert world["blind_seconds_total"] == 30
    for name in ("pods_without_request", "requests_without_pod", "requests_unacknowledged"):
        assert world[f"{name}_oldest_seconds"] == 4
    assert world["uncovered_seconds"] == 3, "it was noticed at the first tick"
    world.wait(2)
    assert world["pods_without_request_oldest_seconds"] == 6


def test_what_is_seen_right_after_a_standstill_has_its_full_age_later(world: World) -> None:
    world.wait(3)
    world.clock.now += 31
    world.witness.on_pod(None, pod("a"))  # before the tick that is late
    world.witness.tick()
    world.wait(5)
    assert world["blind_seconds_total"] == 30
    assert world["pods_without_request_oldest_seconds"] == 5


def test_a_tick_may_be_a_little_late(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.stand_still(1.9)
    assert world["blind_seconds_total"] == 0
    assert world["pods_without_request_oldest_seconds"] == pytest.approx(1.9)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 40)), max_size=60))
def test_its_clock_never_goes_back_and_counts_all_time_once(steps: list[tuple[bool, float]]) -> None:
    world = World()
    sight, began = world.witness.sight, world.clock.now
    last = sight.now()
    for ticks, seconds in steps:
        world.clock.now += seconds
        now = sight.tick() if ticks else sight.now()
        assert now >= last
        assert now + sight.blind_seconds == pytest.approx(world.clock.now)
        last = now
    assert 0 <= sight.blind_seconds <= world.clock.now - began


def test_the_demand_is_covered_by_ready_nodes_and_by_those_that_went_lately(world: World) -> None:
    world.witness.on_pod(None, pod("a"))
    world.wait(3)
    assert (world["uncovered{cpu}"], world["uncovered_seconds"]) == (2, 2)
    world.witness.on_node(None, node(ready=False))
    assert world["uncovered{cpu}"] == 2
    world.witness.on_node(node(ready=False), node())
    assert (world["uncovered{cpu}"], world["uncovered{memory}"], world["uncovered_seconds"]) == (0, 0, 0)
    assert (world["allocatable{cpu,lowest}"], world["allocatable{cpu,highest}"]) == (0, 4)
    world.witness.on_node(node(), None)
    world.wait(30)
    assert world["uncovered_seconds"] == 0
    world.wait(3)
    assert (world["uncovered{cpu}"], world["uncovered_seconds"]) == (2, 2)


def test_a_cordoned_node_is_one_that_went_and_one_that_comes_back_counts_once(world: World) -> None:
    world.witness.on_node(None, node(cpu=2))
    world.witness.on_pod(None, pod("a"))
    world.witness.on_node(node(cpu=2), node(cpu=2, ready=False))
    assert world["uncovered{cpu}"] == 0
    world.witness.on_node(node(cpu=2, ready=False), node(cpu=2))
    world.witness.on_pod(None, pod("b"))
    assert world["uncovered{cpu}"] == 2


def test_what_replaces_a_node_that_went_counts_in_its_place(world: World) -> None:
    """Else a fleet that loses machines all the time would look larger than it is, by all that it has lost lately."""
    lost = [node(f"fake-{number}", cpu=2) for number in range(2)]
    for one in lost:
        world.witness.on_node(None, one)
    for number in range(3):
        world.witness.on_pod(None, pod(f"p{number}"))
    assert world["uncovered{cpu}"] == 2, "three Pods on two Nodes"
    for one in lost:
        world.witness.on_node(one, None)
    world.witness.on_node(None, node("fake-larger", cpu=4))
    assert world["uncovered{cpu}"] == 0, "another size replaces neither"
    world.witness.on_node(None, node("fake-new", cpu=2))
    assert world["uncovered{cpu}"] == 0
    world.witness.on_pod(None, pod("p3"))
    world.witness.on_pod(None, pod("p4"))
    assert world["uncovered{cpu}"] == 2, "five Pods on 4 + 2, and on the 2 that went and are not replaced"


def test_machines_of_the_wrong_kind_cover_nothing(world: World) -> None:
    """What an engine buys by its amounts alone would look like enough."""
    world.witness.on_pod(None, pod("a"))
    world.witness.on_pod(None, pod("b"))
    world.witness.on_node(None, node(cpu=2))
    other = node().labels | {"node.kubernetes.io/instance-type": "c6i.large"}
    world.witness.on_node(None, node("fake-2", cpu=64, labels=other))
    assert world["allocatable{cpu,highest}"] == 66
    assert world["uncovered{cpu}"] == 2
    world.wait(5)
    assert world["uncovered_seconds"] == 5
    world.witness.on_node(None, node("fake-3", cpu=2))
    assert world["uncovered{cpu}"] == world["uncovered_seconds"] == 0


def test_particular_pods_take_the_room_of_those_that_are_less_so(world: World) -> None:
    own = node().labels | {"example.com/team": "team-1"}
    world.witness.on_node(None, node(cpu=2, labels=own))
    world.witness.on_node(None, node("fake-2", cpu=2))
    world.witness.on_pod(None, pod("a", TEAMED))
    world.witness.on_pod(None, pod("b"))
    assert world["uncovered{cpu}"] == 0
    world.witness.on_pod(None, pod("c", TEAMED))
    assert world["uncovered{cpu}"] == 2, "of its team's Nodes, and of all"
    world.witness.on_pod(pod("b"), None)
    assert world["uncovered{cpu}"] == 2, "of its team's Nodes alone"


def test_nodes_that_are_no_machines_cover_nothing(world: World) -> None:
    world.witness.on_node(None, node("scaletest-canary"))
    assert world["allocatable{cpu,highest}"] == 0


def test_a_node_that_is_touched_but_offers_the_same_changes_nothing(world: World) -> None:
    world.witness.on_node(None, node())
    world.wait(11)
    world.witness.on_node(node(), node())
    assert world["allocatable{cpu,lowest}"] == 4


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, False),
        ({"cpu": 1}, True),
        ({"ready": False}, True),
        ({"labels": {"topology.kubernetes.io/zone": "zone-a"}}, True),
        ({"labels": {"node.kubernetes.io/instance-type": "m6i.large", "topology.kubernetes.io/zone": "b"}}, True),
        ({"name": "scaletest-canary"}, True),
    ],
    ids=["fits", "too small", "not ready", "no type", "other zone", "no machine"],
)
def test_a_pending_pod_lacks_capacity_when_no_ready_node_would_ever_do(
    world: World, changes: dict[str, Any], lacks: bool
) -> None:
    world.witness.on_pod(None, pod("a"))
    world.witness.on_node(None, node(**changes))
    world.wait(1)
    world.wait(3)
    assert (world["pods_lacking_capacity"], world["pods_lacking_capacity_oldest_seconds"]) == (lacks, 3 * lacks)


def test_axes_are_asked_for_too(world: World) -> None:
    world.witness.on_pod(None, pod("a", TEAMED))
    world.witness.on_node(None, node())
    assert world["pods_lacking_capacity"] == 1
    other, own = (node().labels | {"example.com/team": f"team-{index}"} for index in (0, 1))
    world.witness.on_node(None, node("fake-2", labels=other))
    assert world["pods_lacking_capacity"] == 1
    world.witness.on_node(None, node("fake-3", labels=own))
    assert world["pods_lacking_capacity"] == 0


def in_rack(name: str, rack: str, **changes: Any) -> SeenNode:
    return node(name, labels=node().labels | {"topology.bigfleet/rack": rack}, **changes)


def test_a_gang_lacks_capacity_while_no_rack_can_hold_all_of_it(world: World) -> None:
    nodes = [in_rack(f"fake-{number}", rack, cpu=64) for number, rack in enumerate(("r-1", "r-1", "r-2", "r-2"))]
    for one in nodes:
        world.witness.on_node(None, one)
    for uid in "abc":
        world.witness.on_pod(None, pod(uid, GANG))
    world.wait(1)
    world.wait(3)
    assert (world["pods_lacking_capacity"], world["pods_lacking_capacity_oldest_seconds"]) == (3, 3)
    assert world["uncovered{cpu}"] == 0, "by its amount it has enough"
    world.witness.on_node(None, in_rack("fake-9", "r-2", cpu=64))
    assert world["pods_lacking_capacity"] == 0


def test_a_hard_spread_lacks_capacity_while_one_zone_has_too_little(world: World) -> None:
    def in_zone(name: str, zone: str) -> SeenNode:
        return node(name, cpu=2, labels=node().labels | {"topology.kubernetes.io/zone": zone})

    for number in range(4):
        world.witness.on_node(None, in_zone(f"fake-a{number}", "zone-a"))
    world.witness.on_node(None, in_zone("fake-b", "zone-b"))
    for number in range(4):
        world.witness.on_pod(None, pod(f"p{number}", SPREAD, node=f"fake-{number}" if number < 3 else ""))
    assert (world["pods_lacking_capacity"], world["uncovered{cpu}"]) == (1, 0)
    world.witness.on_node(None, in_zone("fake-b2", "zone-b"))
    assert world["pods_lacking_capacity"] == 0


def test_a_full_node_is_no_lack_and_a_bound_pod_lacks_nothing(world: World) -> None:
    for uid in "abcdef":
        world.witness.on_pod(None, pod(uid))
    world.witness.on_node(None, node(cpu=2))
    assert world["pods_lacking_capacity"] == 0
    world.witness.on_node(node(cpu=2), None)
    assert world["pods_lacking_capacity"] == 6
    world.witness.on_pod(pod("a"), pod("a", node="fake-1"))
    world.witness.on_pod(pod("b"), None)
    assert world["pods_lacking_capacity"] == 4


def test_a_lack_is_as_old_as_the_pod_and_no_older_than_the_lack(world: World) -> None:
    world.witness.on_node(None, node())
    world.witness.on_pod(None, pod("a"))
    world.wait(20)
    world.witness.on_node(node(), None)
    world.wait(1)
    world.wait(5)
    assert world["pods_lacking_capacity_oldest_seconds"] == 5
    world.witness.on_pod(None, pod("b"))
    world.wait(2)
    world.witness.on_pod(pod("a"), None)
    assert world["pods_lacking_capacity_oldest_seconds"] == 2


def test_without_pods_the_requests_are_what_lives_and_nothing_is_paired() -> None:
    world = World(without_pods=True)
    item = SeenRequest("r", name="web-0-3", workload="web-0")
    world.witness.on_request(None, item)
    world.wait(2)
    assert world["demand{cpu,batch,plain,highest}"] == 2
    assert (world["requests{highest}"], world["requests_unacknowledged_oldest_seconds"]) == (1, 2)
    assert world["uncovered{cpu}"] == 2
    names = {name.partition("{")[0] for name in world.figures()}
    assert not names & {"pods", "pods_without_request", "requests_without_pod", "requests_wrong_total"}
    assert not any("lacking" in name for name in names)
    world.witness.on_request(item, None)
    world.witness.on_request(None, msgspec.structs.replace(item, uid="s"))
    world.wait(11)
    assert world["demand{cpu,batch,plain,lowest}"] == 2
    assert world.arrivals == ["web-0", "web-0"]


def test_nothing_is_said_before_everything_was_seen_once(world: World) -> None:
    world.ready = False
    assert world.figures() == {}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_the_figures_are_those_of_what_is_there(seed: int) -> None:
    """Objects come, change and go at random; a count from scratch gives the same."""
    dice, world = random.Random(seed), World()
    pods: dict[str, SeenPod] = {}
    requests: dict[str, SeenRequest] = {}
    nodes: dict[str, SeenNode] = {}
    for step in range(120):
        match dice.randrange(6):
            case 0 | 1:
                name = f"pod-{dice.randrange(8)}"
                old = pods.get(name)
                uid = old.uid if old and dice.random() < 0.6 else f"{dice.randrange(8)}-{step}"
                place, alive = dice.choice(["", "fake-1"]), dice.random() < 0.7
                if old and old.uid == uid:
                    place, alive = old.node or place, old.alive and alive
                of = ALL[old.workload] if old and old.uid == uid else dice.choice([WEB, SPREAD, GANG, TEAMED])
                new = pod(uid, of, name=name, node=place, alive=alive) if dice.random() < 0.8 else None
                _put(pods, name, new, world.witness.on_pod)
            case 2 | 3:
                name = f"r-{dice.randrange(8)}"
                uids = [one.uid for one in pods.values()] or ["nobody"]
                keep = requests.get(name)
                if not keep or dice.random() >= 0.5:
                    keep = request(f"{name}-{step}", dice.choice([*uids, ""]), RIGHT)
                asked = msgspec.structs.replace(keep, leaving=dice.random() < 0.2, acknowledged=dice.random() < 0.4)
                _put(requests, name, asked if dice.random() < 0.8 else None, world.witness.on_request)
            case 4:
                name = f"fake-{dice.randrange(4)}"
                joined = node(name, cpu=dice.choice([1, 4, 64]), ready=dice.random() < 0.7)
                _put(nodes, name, joined if dice.random() < 0.7 else None, world.witness.on_node)
            case _:
                world.wait(1)
    world.wait(11)
    _check(world, pods, requests, nodes)


def _put(here: dict[str, Any], name: str, new: Any, tell: Any) -> None:
    old = here.pop(name, None)
    if new is not None:
        here[name] = new
    if old is not None or new is not None:
        tell(old, new)


def _check(
    world: World, pods: dict[str, SeenPod], requests: dict[str, SeenRequest], nodes: dict[str, SeenNode]
) -> None:
    living = [one for one in pods.values() if one.alive]
    alive = [one for one in requests.values() if not one.leaving]
    demand: Counter[str] = Counter()
    for one in living:
        for (resource, priority_class, kind), milli in need_of(ALL[one.workload]).combinations.items():
            demand[f"demand{{{resource},{priority_class},{kind},lowest}}"] += milli
    figures = world.figures()
    for name, value in figures.items():
        if name.startswith("demand{") and name.endswith("lowest}"):
            assert value == demand[name] / 1000
    assert figures["pods{lowest}"] == figures["pods{highest}"] == len(living)
    assert figures["requests{lowest}"] == len(alive)
    asked = Counter(one.pod for one in alive)
    uids = {one.uid for one in living}
    assert figures["pods_without_request"] == sum(not asked[uid] for uid in uids)
    assert figures["requests_without_pod"] == len(alive) - sum(bool(asked[uid]) for uid in uids)
    assert figures["requests_unacknowledged"] == sum(not one.acknowledged for one in alive)
    offered = sum(one.allocatable["cpu"] for one in nodes.values() if one.ready)
    assert figures["allocatable{cpu,lowest}"] == offered / 1000

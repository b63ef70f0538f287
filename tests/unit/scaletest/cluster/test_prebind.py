"""The first fill: Pods go where they were seeded for, gangs whole, spreads even, nothing is over-committed."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, RACK_KEY, ZONE_KEY
from scaletest.cluster.load.prebind import bind_all, in_play, plan_anchors, plan_bindings, pre_bind
from scaletest.cluster.load.trimming import OfferedNodeSubset, trim_node
from scaletest.cluster.witness.seen import SeenNode, SeenPod
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.model.demand.draw import Workload
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from scaletest.model.documents.catalog import Archetype
from tests.unit.virtual_time import in_no_time

ZONES = ("zone-a", "zone-b")


def workload(name: str, replicas: int, *, cpu: str = "1", archetype: str = "web", **fields: Any) -> Workload:
    kind = Archetype.model_validate(
        {
            "name": archetype,
            "instanceTypes": ["m6i.large"],
            "zones": list(ZONES),
            "resources": {"cpu": cpu},
            **fields,
        }
    )
    group = f"{name}-grp" if kind.gang else ""
    return Workload(name, kind, replicas, kind.pod_sizes[0], 1000, has_spread=kind.spread is not None, group=group)


def pods(*workloads: Workload, on: Iterable[str] = ()) -> list[SeenPod]:
    """Their Pods; the first ones are on the given nodes."""
    places = iter(on)
    return [
        SeenPod(f"{one.name}-{index}", f"u-{one.name}-{index}", one.name, next(places, ""))
        for one in workloads
        for index in range(one.replicas)
    ]


def node(
    name: str, *, cpu: int = 4, zone: str = "zone-a", rack: str = "r1", archetype: str = "web", ready: bool = True
) -> SeenNode:
    labels = {INSTANCE_TYPE_KEY: "m6i.large", ZONE_KEY: zone, RACK_KEY: rack, ARCHETYPE_LABEL: archetype}
    manifest = {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": {"cpu": str(cpu), "pods": "1100"},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }
    return trim_node(msgspec.convert(manifest, OfferedNodeSubset))


class Nodes:
    """As an informer shows them."""

    def __init__(self, *nodes: SeenNode) -> None:
        self._nodes = {one.name: one for one in nodes}

    def __iter__(self) -> Iterator[SeenNode]:
        return iter(list(self._nodes.values()))

    def get(self, name: str) -> SeenNode | None:
        return self._nodes.get(name)

    def add(self, one: SeenNode) -> None:
        self._nodes[one.name] = one

    def drop(self, name: str) -> None:
        self._nodes.pop(name, None)


def planned(workloads: list[Workload], there: list[SeenPod], nodes: list[SeenNode]) -> dict[str, str]:
    return dict(plan_bindings({one.name: pods_of(one) for one in workloads}, there, nodes))


def test_nothing_is_over_committed_and_the_rest_waits() -> None:
    web = workload("w", 10)
    places = planned([web], pods(web), [node("n1"), node("n2")])
    assert Counter(places.values()) == {"n1": 4, "n2": 4}


def test_what_is_bound_already_keeps_its_room() -> None:
    web = workload("w", 6)
    places = planned([web], pods(web, on=["n1", "n1", "n1"]), [node("n1")])
    assert list(places.values()) == ["n1"]


def test_a_pod_stays_on_machines_that_were_seeded_for_its_kind() -> None:
    web = workload("w", 2)
    assert planned([web], pods(web), [node("n1", archetype="db")]) == {}


def test_a_node_that_is_not_ready_gets_nothing() -> None:
    web = workload("w", 2)
    assert planned([web], pods(web), [node("n1", ready=False)]) == {}


def test_a_resource_that_no_node_offers_yet_waits_and_holds_up_nobody() -> None:
    gpu = workload("g", 1, archetype="gpu", resources={"nvidia.com/gpu": "1"})
    web = workload("w", 1)
    assert planned([gpu, web], pods(gpu, web), [node("n1")]) == {"w-0": "n1"}


GANG = {"scope": "sameRack", "groupSizeRange": [1, 16]}


def test_a_gang_waits_until_one_rack_takes_all_of_it() -> None:
    gang = workload("t", 3, cpu="4", gang=GANG)
    two_racks = [node("n1", rack="r1"), node("n2", rack="r1"), node("n3", rack="r2")]
    assert planned([gang], pods(gang), two_racks) == {}
    places = planned([gang], pods(gang), [*two_racks, node("n4", rack="r1")])
    assert set(places.values()) == {"n1", "n2", "n4"}


def test_a_gang_that_has_begun_follows_its_first_member() -> None:
    gang = workload("t", 2, cpu="4", gang=GANG)
    nodes = [node("n1", rack="r2"), node("n2", rack="r1"), node("n3", rack="r2")]
    assert planned([gang], pods(gang, on=["n1"]), nodes) == {"t-1": "n3"}


def test_a_hard_spread_is_even_over_zones_and_counts_what_is_there() -> None:
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    web = workload("w", 6, spread=spread)
    nodes = [node("a", cpu=10, zone="zone-a"), node("b", cpu=10, zone="zone-b")]
    places = planned([web], pods(web, on=["a", "a"]), nodes)
    assert Counter(places.values()) == {"a": 1, "b": 3}


def test_what_spreads_is_placed_before_what_can_go_anywhere() -> None:
    spread = {"probability": 0.5, "whenUnsatisfiable": "DoNotSchedule"}
    anywhere, even = workload("anywhere", 4), workload("even", 4, spread=spread)
    nodes = [node("a", cpu=6, zone="zone-a"), node("b", cpu=2, zone="zone-b")]
    places = planned([anywhere, even], pods(anywhere, even), nodes)
    assert Counter((pod.partition("-")[0], name) for pod, name in places.items()) == {
        ("even", "a"): 2,
        ("even", "b"): 2,
        ("anywhere", "a"): 4,
    }


def test_pods_on_machines_of_a_spread_wait_until_all_nodes_are_there() -> None:
    """Until then one zone may be all there is, and would be filled with what belongs to three."""
    spread = {"probability": 0.5, "whenUnsatisfiable": "DoNotSchedule"}
    even, beside, other = workload("even", 4, spread=spread), workload("beside", 1), workload("o", 1, archetype="api")
    all_of_them = [even, beside, other]
    classes = {one.name: pods_of(one) for one in all_of_them}
    nodes = [node("a"), node("w", archetype="api")]
    assert plan_bindings(classes, pods(*all_of_them), nodes, complete=False) == [("o-0", "w")]
    assert len(plan_bindings(classes, pods(*all_of_them), nodes)) == 5


def anchored(workloads: list[Workload], there: list[SeenPod], nodes: list[SeenNode]) -> dict[str, str]:
    """Gang → the node of its anchor."""
    anchors = plan_anchors({one.name: pods_of(one) for one in workloads}, there, nodes)
    return {pod.rpartition("-")[0]: place for pod, place in anchors}


def test_one_pod_anchors_a_gang_that_has_none_bound_where_there_is_room() -> None:
    first, second = (workload(name, 2, cpu="4", gang=GANG) for name in ("s", "t"))
    nodes = [node(f"n{index}") for index in range(5)]
    anchors = anchored([first, second], pods(first, second, on=["n0"]), nodes)
    assert anchors.keys() == {"t"}
    assert anchors["t"] in {"n1", "n2", "n3", "n4"}


def test_an_anchor_keeps_clear_of_what_is_no_gang() -> None:
    web, gang = workload("w", 3, cpu="2"), workload("t", 2, cpu="4", archetype="trainer", gang=GANG)
    nodes = [node("n0", rack="r1"), node("n1", rack="r1"), node("n2", rack="r2"), node("n3", rack="r2")]
    assert anchored([web, gang], pods(web, gang, on=["n0", "n0", "n2"]), nodes) == {}
    assert anchored([web, gang], pods(web, gang, on=["n0", "n0", "n1"]), nodes)["t"] in {"n2", "n3"}


def test_gangs_that_are_anchored_together_do_not_share_a_node() -> None:
    first, second = (workload(name, 1, cpu="4", gang=GANG) for name in ("s", "t"))
    places = anchored([first, second], pods(first, second), [node("n0"), node("n1")])
    assert set(places.values()) == {"n0", "n1"}


def test_the_fill_goes_on_as_nodes_come_and_leaves_to_others_what_they_bound() -> None:
    web = workload("w", 6)
    there, nodes = pods(web), Nodes(node("n1"))
    asked: list[tuple[str, str]] = []

    async def bind(pod: str, name: str) -> bool:
        asked.append((pod, name))
        if len(asked) == 1:  # someone else was faster, elsewhere
            next(one for one in there if one.name == pod).node = "n0"
            nodes.add(node("n2"))
            return False
        return True  # the watch shows it later: never, here

    in_no_time(pre_bind({"w": pods_of(web)}, {"w": 6}, lambda: there, nodes, bind))
    assert len(asked) == 6, "nothing is asked for twice"
    assert Counter(name for _, name in asked[1:])["n1"] <= 4


def test_the_fill_is_not_over_before_its_last_pod_exists_and_leaves_others_their_room() -> None:
    web, other = workload("w", 3), workload("o", 4)
    there, nodes = pods(web)[:1] + pods(other, on=["n1", "n1"]), Nodes(node("n1"), node("n2"))
    asked: dict[str, str] = {}

    async def bind(pod: str, name: str) -> bool:
        asked[pod] = name
        there.extend(pods(web)[1:] if len(asked) == 1 else [])  # the controller was slow
        return True

    classes = {one.name: pods_of(one) for one in (web, other)}
    in_no_time(pre_bind(classes, {"w": 3}, lambda: there, nodes, bind))
    assert asked.keys() == {"w-0", "w-1", "w-2"}, "the other one's waiting Pods are kube-scheduler's"
    assert Counter(asked.values())["n1"] <= 2


def test_the_fill_is_not_over_while_the_replacement_of_a_pod_that_leaves_waits() -> None:
    """A machine was drained in the middle of it: its Pods still have their node, and are nobody's any more."""
    web = workload("web", 2)
    there = pods(web, on=["n0", "n1"])
    there[1].leaving = True
    there.append(SeenPod("web-new", "u-new", "web"))
    done: list[tuple[str, str]] = []

    async def bind(pod: str, node: str) -> bool:
        done.append((pod, node))
        return True

    classes = {"web": pods_of(web)}
    in_no_time(
        pre_bind(classes, {"web": 2}, lambda: in_play(there, classes, {"web"}), Nodes(node("n0"), node("n1")), bind)
    )
    assert [pod for pod, _ in done] == ["web-new"]


def test_gangs_choose_their_racks_when_all_nodes_are_there() -> None:
    big, small = workload("big", 3, cpu="4", gang=GANG), workload("small", 2, cpu="4", gang=GANG)
    web = workload("web", 1, archetype="api")
    nodes = Nodes(node("n1", rack="r1"), node("n2", rack="r1"), node("w", rack="r3", archetype="api"))
    asked: dict[str, str] = {}

    async def bind(pod: str, name: str) -> bool:
        asked[pod] = name
        if pod == "web-0":  # meanwhile
            for name, rack in (("n3", "r1"), ("n4", "r2"), ("n5", "r2")):
                nodes.add(node(name, rack=rack))
        return True

    fill = (big, small, web)
    replicas = {one.name: one.replicas for one in fill}
    in_no_time(pre_bind({one.name: pods_of(one) for one in fill}, replicas, lambda: pods(*fill), nodes, bind))
    assert {asked[f"big-{number}"] for number in range(3)} == {"n1", "n2", "n3"}
    assert {asked[f"small-{number}"] for number in range(2)} == {"n4", "n5"}


async def test_bindings_that_fail_are_not_counted() -> None:
    async def bind(pod: str, _: str) -> bool:
        return pod == "a"

    assert await bind_all([("a", "n"), ("b", "n")], Nodes(node("n")), bind) == [("a", "n")]


async def test_a_node_that_was_cordoned_or_left_after_the_plan_gets_no_more_pods() -> None:
    asked: list[str] = []
    nodes = Nodes(node("n1"), node("n2"), node("n3"))

    async def bind(pod: str, _: str) -> bool:
        asked.append(pod)
        nodes.drop("n2")
        nodes.add(node("n3", ready=False))
        return True

    done = await bind_all([("a", "n1"), ("b", "n2"), ("c", "n3")], nodes, bind)
    assert asked == ["a"] and done == [("a", "n1")]

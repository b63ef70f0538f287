"""What drains do to Pods: which of them were evicted, and which were cut off when their Node went."""

from typing import Any

import msgspec
import pytest

from bigfleet.kube import Object
from scaletest.cluster.nodes.drained_pods import BOUND_SECONDS, SETTLED_SECONDS, CutOff, leaves
from scaletest.cluster.nodes.pods_by_node import PodsByNode
from scaletest.cluster.nodes.trims import (
    KeptPod,
    MachineNodeSubset,
    PlacedPodSubset,
    UpcomingNodeSubset,
    trim_node,
    trim_pod,
    trim_upcoming,
)

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
DELETED = {"deletionTimestamp": "2024-01-01T00:00:00Z"}


def pod(name: str = "web", node: str = "n", phase: str = "Running", condition: Any = None, **metadata: Any) -> KeptPod:
    conditions = [condition] if condition else []
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid of {name}"} | metadata,
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions},
    }
    return trim_pod(msgspec.convert(manifest, PlacedPodSubset))


class Cluster:
    """A Node `n` whose Pods come and go."""

    def __init__(self, *pods: KeptPod) -> None:
        self.now = -BOUND_SECONDS
        self.pods = PodsByNode(clock=lambda: self.now)
        self.cut_off = CutOff(self.pods)
        self.cut_off.came("n")
        for each in pods:
            self.pods.note(None, each)
        self.now = 0.0

    def judged(self, at: float = SETTLED_SECONDS) -> list[tuple[str, int]]:
        return [(drained.node, drained.cut_off) for drained in self.cut_off.judged(at)]


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        (pod(), pod(condition=EVICTED, **DELETED), "evicted"),
        (pod(condition=EVICTED), None, "evicted"),
        (pod(), pod(**DELETED), "deleted"),
        (pod(), None, "deleted"),
        (pod(), pod(condition=PREEMPTED, **DELETED), "deleted"),
        (pod(), pod(condition=EVICTED), None),
        (pod(), pod(phase="Succeeded"), None),
        (pod(**DELETED), None, None),
        (pod(phase="Failed"), None, None),
        (None, pod(**DELETED), None),
    ],
)
def test_a_pod_that_is_made_to_leave_was_evicted_if_the_apiserver_says_so(
    old: KeptPod | None, new: KeptPod | None, how: str | None
) -> None:
    assert leaves(old, new) == how


def test_pods_that_live_on_a_drained_node_when_it_goes_are_cut_off() -> None:
    cluster = Cluster(pod("a"), pod("b"), pod("leaving", **DELETED), pod("done", phase="Succeeded"), pod("c", "other"))
    cluster.cut_off.drained("n")
    cluster.cut_off.went("n", 0)
    assert cluster.judged(SETTLED_SECONDS - 1) == []
    assert cluster.judged() == [("n", 2)]
    assert cluster.judged(SETTLED_SECONDS + 1) == [], "told once"


def test_a_pod_that_is_seen_to_leave_a_moment_later_was_not_cut_off() -> None:
    cluster = Cluster(pod("a"))
    cluster.cut_off.drained("n")
    cluster.cut_off.went("n", 0)
    cluster.pods.note(pod("a"), None)
    assert cluster.judged() == [("n", 0)]


def test_a_pod_that_came_a_moment_before_its_node_went_was_not_cut_off() -> None:
    cluster = Cluster(pod("a"))
    cluster.now = -BOUND_SECONDS + 1
    cluster.pods.note(None, pod("late"))
    cluster.pods.note(pod("a"), pod("a", phase="Pending"))
    cluster.now = 0.0
    cluster.cut_off.drained("n")
    cluster.cut_off.went("n", 0)
    assert cluster.judged() == [("n", 1)]


def test_a_pod_that_is_bound_to_a_node_that_has_gone_was_not_cut_off() -> None:
    cluster = Cluster()
    cluster.cut_off.drained("n")
    cluster.cut_off.went("n", 0)
    cluster.pods.note(None, pod("late"))
    assert cluster.judged() == [("n", 0)]


def test_why_a_node_went_may_be_told_afterwards() -> None:
    cluster = Cluster(pod("a"))
    cluster.cut_off.went("n", 0)
    cluster.cut_off.drained("n")
    assert cluster.judged() == [("n", 1)]


def test_the_pods_of_a_lost_machine_are_not_cut_off_by_a_drain() -> None:
    for drained_first in (False, True):
        cluster = Cluster(pod("a"))
        if drained_first:
            cluster.cut_off.drained("n")
        cluster.cut_off.lost("n")
        cluster.cut_off.drained("n")
        cluster.cut_off.went("n", 0)
        assert cluster.judged() == []


def test_a_node_that_goes_for_no_known_reason_is_no_drain() -> None:
    cluster = Cluster(pod("a"))
    cluster.cut_off.went("n", 0)
    assert cluster.judged() == []


def test_a_machines_next_node_was_not_drained() -> None:
    cluster = Cluster(pod("a"))
    cluster.cut_off.drained("n")
    cluster.cut_off.came("n")
    cluster.cut_off.went("n", 0)
    assert cluster.judged() == []


def test_of_many_nodes_each_is_judged_when_its_own_time_is_over() -> None:
    cluster = Cluster(pod("a", "n"), pod("b", "m"))
    for node, at in (("n", 0.0), ("m", 3.0)):
        cluster.cut_off.drained(node)
        cluster.cut_off.went(node, at)
    assert cluster.judged(SETTLED_SECONDS + 2) == [("n", 1)]
    assert cluster.judged(SETTLED_SECONDS + 3) == [("m", 1)]


def test_of_nodes_and_upcoming_nodes_the_cordon_and_the_reference_are_kept() -> None:
    node: Object = {"metadata": {"name": "fake-m"}, "spec": {"unschedulable": True}}
    assert trim_node(msgspec.convert(node, MachineNodeSubset)).cordoned is True
    assert trim_node(msgspec.convert(node | {"spec": {}}, MachineNodeSubset)).cordoned is False
    upcoming: Object = {"metadata": {"name": "un-m"}, "spec": {"resources": {}}}
    assert trim_upcoming(msgspec.convert(upcoming, UpcomingNodeSubset)).node == ""
    upcoming["status"] = {"nodeRef": {"name": "fake-m"}}
    assert trim_upcoming(msgspec.convert(upcoming, UpcomingNodeSubset)).node == "fake-m"


@pytest.mark.parametrize("cordoned", [True, False])
def test_a_node_that_was_drained_was_cordoned_before(cordoned: bool) -> None:
    cluster = Cluster()
    cluster.cut_off.drained("n")
    cluster.cut_off.went("n", 0, cordoned=cordoned)
    assert [drained.cordoned for drained in cluster.cut_off.judged(SETTLED_SECONDS)] == [cordoned]


def test_whether_a_lost_node_was_cordoned_is_not_asked() -> None:
    cluster = Cluster()
    cluster.cut_off.lost("n")
    cluster.cut_off.went("n", 0, cordoned=False)
    assert cluster.cut_off.judged(SETTLED_SECONDS) == []

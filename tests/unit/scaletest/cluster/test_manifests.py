"""Drawn demand becomes the objects that docs/reference/harness.md#load describes."""

from dataclasses import replace
from typing import Any, Literal

from bigfleet.core.requirements import RACK_KEY, ZONE_KEY
from bigfleet.kube.resources import DEPLOYMENTS, STATEFUL_SETS
from scaletest.cluster.workloads.manifests import (
    GROUP_LABEL,
    WORKLOAD_LABEL,
    counted_by_spread,
    manifest_of,
    resource_of,
)
from scaletest.model.demand.draw import Workload
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from scaletest.model.documents.catalog import Archetype, Gang, LabelAxis, Size, SpreadConstraint


def workload(name: str = "web", *, has_spread: bool = False, group: str = "", **fields: Any) -> Workload:
    size = Size(resources={"cpu": "2", "memory": "4Gi"})
    archetype = Archetype(name=name, instance_types=("m6i.large",), zones=("zone-a", "zone-b"), sizes=(size,), **fields)
    return Workload(f"kwok-cluster-3-{name}-7", archetype, 5, size, 1000, has_spread, group)


def pod_spec(drawn: Workload) -> dict[str, Any]:
    spec: dict[str, Any] = manifest_of(drawn)["spec"]["template"]["spec"]
    return spec


def test_a_service_becomes_a_deployment_whose_selector_finds_its_pods() -> None:
    manifest = manifest_of(workload())
    labels = {"scaletest.bigfleet/archetype": "web", "scaletest.bigfleet/workload": "kwok-cluster-3-web-7"}
    assert resource_of(workload()) is DEPLOYMENTS
    assert (manifest["kind"], manifest["spec"]["replicas"]) == ("Deployment", 5)
    assert manifest["spec"]["template"]["metadata"]["labels"] == labels
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_stateful_name_becomes_a_stateful_set_whose_pods_do_not_wait_for_each_other() -> None:
    drawn = workload("stateful-db")
    manifest = manifest_of(drawn)
    assert resource_of(drawn) is STATEFUL_SETS
    assert manifest["kind"] == "StatefulSet"
    assert manifest["spec"]["serviceName"] == drawn.name
    assert manifest["spec"]["podManagementPolicy"] == "Parallel"


def test_pods_ask_for_one_size_as_request_and_limit_and_carry_a_bare_priority() -> None:
    spec = pod_spec(workload())
    resources = spec["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert spec["priority"] == 1000
    assert "priorityClassName" not in spec


def test_pods_require_the_archetypes_instance_types_and_zones() -> None:
    affinity = pod_spec(workload())["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.large"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a", "zone-b"]},
    ]
    assert "podAffinity" not in affinity


def test_penalties_are_annotations_in_plain_dollars() -> None:
    template = manifest_of(workload(interruption_penalty=1_048_576, reclamation_penalty=0.5))["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "bigfleet.lucy.sh/interruption-penalty": "1048576",
        "bigfleet.lucy.sh/reclamation-penalty": "0.5",
    }


def test_a_gang_shares_a_label_and_must_share_a_rack_or_a_zone() -> None:
    scopes: dict[Literal["sameRack", "sameZone"], str] = {"sameRack": RACK_KEY, "sameZone": ZONE_KEY}
    for scope, key in scopes.items():
        gang = Gang(scope=scope, group_size_range=(3, 5))
        drawn = workload("trainer", gang=gang, group="kwok-cluster-3-trainer-grp-7")
        (term,) = pod_spec(drawn)["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == key
        assert term["labelSelector"]["matchLabels"] == {GROUP_LABEL: drawn.group}
        assert manifest_of(drawn)["spec"]["template"]["metadata"]["labels"][GROUP_LABEL] == drawn.group


def test_a_spread_is_there_only_when_it_was_drawn() -> None:
    spread = SpreadConstraint(probability=0.5, max_skew=2, when_unsatisfiable="ScheduleAnyway")
    assert "topologySpreadConstraints" not in pod_spec(workload(spread=spread))
    (constraint,) = pod_spec(workload(spread=spread, has_spread=True))["topologySpreadConstraints"]
    assert constraint == {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 2,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"scaletest.bigfleet/workload": "kwok-cluster-3-web-7"}},
    }


def test_a_spread_counts_its_archetype_only_if_all_pods_of_that_are_alike() -> None:
    always = SpreadConstraint(when_unsatisfiable="DoNotSchedule")
    sometimes = SpreadConstraint(probability=0.5, when_unsatisfiable="DoNotSchedule")
    axis = LabelAxis(key="example.com/team", count=2)
    archetype, own = {ARCHETYPE_LABEL: "web"}, {WORKLOAD_LABEL: "kwok-cluster-3-web-7"}
    assert counted_by_spread(workload(spread=always, has_spread=True)) == archetype
    assert counted_by_spread(workload(spread=sometimes, has_spread=True)) == own
    assert counted_by_spread(workload(spread=always, has_spread=True, priority_classes=(100, 1000))) == own
    assert counted_by_spread(workload(spread=always, has_spread=True, label_axes=(axis,))) == own
    two_sizes = workload(spread=always, has_spread=True).archetype.model_copy(
        update={"sizes": (Size(resources={"cpu": "1"}), Size(resources={"cpu": "2"}))}
    )
    assert counted_by_spread(replace(workload(), archetype=two_sizes, has_spread=True)) == own

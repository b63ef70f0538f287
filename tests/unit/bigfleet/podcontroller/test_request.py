"""From a Pod to its CapacityRequest (docs/reference/engine.md#pod-controller)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.operator.rollup import contribution_of
from bigfleet.podcontroller.controller import WrittenRequest
from bigfleet.podcontroller.penalties import DefaultsError, load_defaults
from bigfleet.podcontroller.pods import read_pod
from bigfleet.podcontroller.request import Translation, request_name, request_of, translate

UID = "0a1b2c3d-0000-4000-8000-000000000000"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(annotations: dict[str, str] | None = None, name: str = "web-0", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": UID, "annotations": annotations or {}},
        "spec": {"containers": containers} | spec,
        "status": {"phase": "Pending"},
    }


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expressions(*items: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in items]}


def translated(subject: dict[str, Any]) -> Translation:
    return translate(read_pod(subject), {})


def test_a_pod_that_asks_for_nothing_special_takes_any_instance_type() -> None:
    assert translated(pod()) == Translation(
        {
            "priority": 0,
            "resources": {"cpu": "1"},
            "requirements": [{"key": INSTANCE_TYPE_KEY, "operator": "Exists"}],
        },
        (),
    )


def test_requirements_come_from_selector_and_affinity_in_one_order() -> None:
    subject = pod(
        nodeSelector={"disk": "ssd"},
        affinity=node_affinity(expressions((ZONE_KEY, "In", ["b", "a"]), ("arch", "NotIn", ["arm"]))),
        priority=1000,
    )
    spec = translated(subject).spec
    assert spec["priority"] == 1000
    assert spec["requirements"] == [
        {"key": "arch", "operator": "NotIn", "values": ["arm"]},
        {"key": "disk", "operator": "In", "values": ["ssd"]},
        {"key": ZONE_KEY, "operator": "In", "values": ["a", "b"]},
    ]


def test_spread_of_both_kinds_is_kept() -> None:
    terms: list[dict[str, Any]] = [
        {"topologyKey": ZONE_KEY, "maxSkew": 1, "whenUnsatisfiable": kind, "labelSelector": {}}
        for kind in ("DoNotSchedule", "ScheduleAnyway")
    ]
    spread = translated(pod(topologySpreadConstraints=terms)).spec["topologySpread"]
    assert [term["whenUnsatisfiable"] for term in spread] == ["DoNotSchedule", "ScheduleAnyway"]
    assert set(spread[0]) == {"topologyKey", "maxSkew", "whenUnsatisfiable"}


def test_required_pod_affinity_becomes_co_location() -> None:
    selector = {"matchLabels": {"gang": "one"}}
    affinity = {
        "podAffinity": {REQUIRED: [{"topologyKey": "rack", "labelSelector": selector, "mismatchLabelKeys": []}]}
    }
    translation = translated(pod(affinity=affinity))
    assert translation.spec["coLocation"] == {"topologyKey": "rack", "labelSelector": selector}
    assert translation.problems == ()


@pytest.mark.parametrize(
    ("affinity", "complaint"),
    [
        (node_affinity(expressions(("a", "Exists", [])), expressions(("b", "Exists", []))), "first of several node"),
        (node_affinity(expressions(("cpus", "Gt", ["4"]))), "operator Gt on cpus"),
        (node_affinity(expressions(("disk", "In", ["ssd", "a b"]))), "on disk cannot be asked for: values[1]: 'a b'"),
        (node_affinity(expressions(("disk", "NotIn", ["x" * 64]))), "on disk cannot be asked for: values[0]"),
        (node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}), "matchFields"),
        ({"podAffinity": {REQUIRED: [{"topologyKey": "a"}, {"topologyKey": "b"}]}}, "first of several required podAff"),
        ({"podAntiAffinity": {REQUIRED: [{"topologyKey": "a"}]}}, "podAntiAffinity"),
        ({"podAffinity": {REQUIRED: [{"topologyKey": "a", "namespaces": ["x"]}]}}, "other namespaces"),
        ({"podAffinity": {REQUIRED: [{"topologyKey": "a", "namespaceSelector": {}}]}}, "other namespaces"),
    ],
    ids=[
        "second term",
        "Gt",
        "bad value",
        "long value",
        "fields",
        "second gang",
        "anti-affinity",
        "namespaces",
        "any namespace",
    ],
)
def test_an_affinity_that_cannot_be_asked_for_is_named(affinity: dict[str, Any], complaint: str) -> None:
    named_and_the_rest_is_asked_for(pod(affinity=affinity), complaint)


def test_an_empty_value_and_an_absent_label_can_be_asked_for() -> None:
    affinity = node_affinity(expressions(("tier", "In", [""]), ("disk", "DoesNotExist", [])))
    translation = translated(pod(affinity=affinity, nodeSelector={"pool": ""}))
    assert translation.problems == ()
    assert contribution_of(translation.spec).profile.requirements
    assert translation.spec["requirements"] == [
        {"key": "disk", "operator": "DoesNotExist"},
        {"key": "pool", "operator": "In", "values": [""]},
        {"key": "tier", "operator": "In", "values": [""]},
    ]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]}, "PersistentVolume"),
        ({"volumes": [{"name": "cache", "ephemeral": {"volumeClaimTemplate": {}}}]}, "PersistentVolume"),
        ({"initContainers": [{"name": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, "hostPort"),
        (
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
                ]
            },
            "minDomains",
        ),
    ],
    ids=["claims", "volume", "ephemeral volume", "host port", "domains"],
)
def test_what_else_cannot_be_asked_for_is_named(spec: dict[str, Any], complaint: str) -> None:
    named_and_the_rest_is_asked_for(pod(**spec), complaint)


def named_and_the_rest_is_asked_for(asking: dict[str, Any], complaint: str) -> None:
    translation = translated(asking)
    assert len(translation.problems) == 1
    assert complaint in translation.problems[0]
    assert contribution_of(translation.spec).amounts == (("cpu", 1000),)


def test_penalties_come_from_annotations_then_the_class_then_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "defaults.yaml"
    file.write_text("batch: {interruptionPenalty: 2, reclamationPenalty: 500m}\n")
    defaults = load_defaults(file)
    own = {"bigfleet.lucy.sh/interruption-penalty": "8"}
    spec = translate(read_pod(pod(own, priorityClassName="batch")), defaults).spec
    assert (spec["interruptionPenalty"], spec["reclamationPenalty"]) == ("8", "500m")
    spec = translate(read_pod(pod(own, priorityClassName="other")), defaults).spec
    assert spec["interruptionPenalty"] == "8"
    assert "reclamationPenalty" not in spec


def test_a_penalty_that_is_no_quantity_is_named_and_the_default_taken() -> None:
    translation = translate(
        read_pod(pod({"bigfleet.lucy.sh/reclamation-penalty": "much"}, priorityClassName="batch")),
        {"batch": {"reclamationPenalty": "4"}},
    )
    assert translation.spec["reclamationPenalty"] == "4"
    assert "'much'" in translation.problems[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "not a mapping"),
        ("batch: 4", "batch: not a mapping"),
        ("batch: {interuptionPenalty: 4}", "batch.interuptionPenalty: there are interruptionPenalty"),
        ("batch: {interruptionPenalty: dear}", "batch.interruptionPenalty: 'dear' is not a quantity"),
        ("batch: {", "defaults.yaml"),
    ],
)
def test_bad_defaults_are_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "defaults.yaml"
    file.write_text(text)
    with pytest.raises(DefaultsError, match=complaint.replace(".", r"\.")):
        load_defaults(file)


def test_a_request_belongs_to_its_pod() -> None:
    request = request_of(read_pod(pod()), {"priority": 0})
    assert request["metadata"]["name"] == "cr-pod-web-0-0a1b2c3d"
    assert request["metadata"]["labels"] == {"bigfleet.lucy.sh/owned-by-pod": UID}
    assert request["metadata"]["ownerReferences"][0]["uid"] == UID
    assert msgspec.convert(request, WrittenRequest).pod == "default/web-0"


def test_a_request_of_somebody_else_is_nobodys() -> None:
    foreign = request_of(read_pod(pod()), {})
    foreign["metadata"]["labels"] = {}
    assert msgspec.convert(foreign, WrittenRequest).pod is None


def test_the_longest_pod_name_still_makes_a_legal_request_name() -> None:
    name = request_name(read_pod(pod(name="a" * 236 + "." + "b" * 16)))
    assert len(name) <= 253
    assert name.endswith("a-0a1b2c3d")


def test_of_a_pod_only_that_is_read_on_which_its_request_depends() -> None:
    before, after = pod(), pod()
    after["metadata"] |= {"labels": {"x": "y"}, "annotations": {"other": "z"}}
    after["spec"]["nodeName"] = "n1"
    after["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled"}]}
    assert read_pod(before) == read_pod(after)

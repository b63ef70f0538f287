"""What the process kubelet refuses, and what it accepts without enforcing."""

from typing import Any

import pytest

from scaletest.host.kubelet.policy import refusals, unenforced


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "pod", "namespace": "demo", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "one"} | (container or {})]} | spec,
    }


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (pod(hostNetwork=True), "hostNetwork"),
        (pod(hostPID=True), "hostPID"),
        (pod(volumes=[{"name": "root", "hostPath": {"path": "/"}}]), "volume root: hostPath"),
        (pod(volumes=[{"name": "disk", "nfs": {}}]), "volume disk: nfs"),
        (pod({"ports": [{"containerPort": 80, "hostPort": 80}]}), "container one: hostPort"),
        (pod({"securityContext": {"privileged": True}}), "container one: privileged"),
        (pod({"readinessProbe": {"grpc": {"port": 1}}}), "grpc"),
    ],
)
def test_a_pod_that_needs_the_machine_itself_is_refused(refused: dict[str, Any], why: str) -> None:
    [objection] = refusals(refused)
    assert why in objection


def test_all_objections_are_named_at_once() -> None:
    assert len(refusals(pod({"securityContext": {"privileged": True}}, hostNetwork=True, hostIPC=True))) == 3


def test_an_ordinary_pod_is_not_refused() -> None:
    volumes: list[dict[str, Any]] = [
        {"name": kind, kind: {}}
        for kind in ("emptyDir", "configMap", "secret", "projected", "downwardAPI", "persistentVolumeClaim")
    ]
    sidecar = {"name": "side", "restartPolicy": "Always"}
    ordinary = pod(
        {"securityContext": {"privileged": False}}, volumes=volumes, hostNetwork=False, initContainers=[sidecar]
    )
    assert refusals(ordinary) == []


def test_what_is_not_enforced_is_listed_once() -> None:
    container = {
        "securityContext": {"runAsUser": 1, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        "resources": {"limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/s", "readOnly": True}],
    }
    spec = pod(
        container,
        securityContext={"runAsUser": 2, "seccompProfile": {"type": "RuntimeDefault"}},
        volumes=[{"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
    )
    assert unenforced(spec) == [
        "runAsUser",
        "readOnlyRootFilesystem",
        "capabilities",
        "seccompProfile",
        "resource limits",
        "emptyDir in memory (it is on disk)",
        "emptyDir sizeLimit",
        "read-only mounts",
    ]
    assert unenforced(pod()) == []


@pytest.mark.parametrize(
    ("namespace", "selector", "named"),
    [
        ("demo", {}, True),
        ("demo", {"matchLabels": {"app": "web"}}, True),
        ("demo", {"matchLabels": {"app": "other"}}, False),
        ("demo", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ("demo", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ("demo", {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ("demo", {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ("other", {}, False),
    ],
)
def test_a_network_policy_is_named_if_it_means_the_pod(namespace: str, selector: dict[str, Any], named: bool) -> None:
    policy = {"metadata": {"name": "deny", "namespace": namespace}, "spec": {"podSelector": selector}}
    assert ("NetworkPolicy" in unenforced(pod(), [policy])) == named


def test_what_needs_namespaces_is_named_where_there_are_none() -> None:
    [names, aliases] = unenforced(pod(hostAliases=[{"ip": "127.0.0.1", "hostnames": ["a"]}]), isolated=False)
    assert "run time" in names
    assert aliases == "hostAliases"

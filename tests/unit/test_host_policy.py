"""What the process kubelet refuses, and what it accepts without enforcing."""

from typing import Any

import pytest

from scaletest.host.kubelet.policy import refusal, unenforced


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "one"} | (container or {})]} | spec}


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (pod(hostNetwork=True), "hostNetwork"),
        (pod(hostPID=True), "hostPID"),
        (pod(volumes=[{"name": "root", "hostPath": {"path": "/"}}]), "volume root: hostPath"),
        (pod(volumes=[{"name": "disk", "persistentVolumeClaim": {}}]), "volume disk: persistentVolumeClaim"),
        (pod({"securityContext": {"privileged": True}}), "container one: privileged"),
        (pod({"readinessProbe": {"grpc": {"port": 1}}}), "grpc"),
        (pod(initContainers=[{"name": "side", "restartPolicy": "Always"}]), "init container side"),
    ],
)
def test_a_pod_that_needs_the_machine_itself_is_refused(refused: dict[str, Any], why: str) -> None:
    assert why in (refusal(refused) or "")


def test_an_ordinary_pod_is_not_refused() -> None:
    volumes: list[dict[str, Any]] = [
        {"name": kind, kind: {}} for kind in ("emptyDir", "configMap", "secret", "projected", "downwardAPI")
    ]
    assert refusal(pod({"securityContext": {"privileged": False}}, volumes=volumes, hostNetwork=False)) is None


def test_what_is_not_enforced_is_listed_once() -> None:
    container = {
        "securityContext": {"runAsUser": 1, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        "resources": {"limits": {"memory": "1Gi"}},
        "lifecycle": {"preStop": {}},
    }
    spec = pod(container, securityContext={"runAsUser": 2, "seccompProfile": {"type": "RuntimeDefault"}})
    assert unenforced(spec) == [
        "runAsUser",
        "readOnlyRootFilesystem",
        "capabilities",
        "seccompProfile",
        "limits",
        "lifecycle hooks",
    ]
    assert unenforced(pod()) == []

"""The lives of containers on the embedded host: hooks, sidecars, last words, volumes that last, and what is told."""

import asyncio
from typing import Any

import pytest

from scaletest.host.embedded import EmbeddedHost
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.host.host_pods import (
    POD_NAME,
    config_map,
    container_of,
    is_over,
    is_ready,
    pod,
    script,
)

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


SHARED = {"name": "shared", "mountPath": "/shared"}
SHARED_VOLUME = {"name": "shared", "emptyDir": {"medium": "Memory"}}


def waiting_of(pod: dict[str, Any]) -> dict[str, str]:
    state: dict[str, str] = container_of(pod)["state"].get("waiting", {})
    return state


async def events_of(kubectl: Kubectl, name: str, reason: str) -> list[dict[str, Any]]:
    """The Events on a pod, once there are some."""
    found = await kubectl.until(
        lambda events: events["items"], "events", f"--field-selector=involvedObject.name={name},reason={reason}"
    )
    return list(found["items"])


async def test_hooks_run_after_the_start_and_before_the_end(host: EmbeddedHost, kubectl: Kubectl) -> None:
    def append(word: str) -> dict[str, Any]:
        return {"exec": {"command": ["sh", "-c", f"echo {word} >> /shared/story"]}}

    story = "trap 'echo asked >> /shared/story; cat /shared/story; exit 0' TERM; while :; do sleep 0.05; done"
    await kubectl.apply(
        pod(
            "hooked",
            script(
                "hooked",
                story,
                volumeMounts=[SHARED],
                lifecycle={"postStart": append("begun"), "preStop": append("told")},
            ),
            script("broken", "exec sleep 300", lifecycle={"preStop": {"exec": {"command": ["false"]}}}),
            volumes=[SHARED_VOLUME],
        )
    )
    ready = await kubectl.until(is_ready, "pod", "hooked")
    await kubectl("delete", "pod", "hooked")
    log = host.pod_logs_dir / f"default_hooked_{ready['metadata']['uid']}" / "hooked" / "0.log"
    assert log.read_text() == "begun\ntold\nasked\n"
    [failed] = await events_of(kubectl, "hooked", "FailedPreStopHook")
    assert "exited with code 1" in failed["message"]


async def test_a_failed_post_start_hook_ends_the_container(kubectl: Kubectl) -> None:
    hook = {"postStart": {"httpGet": {"port": 1, "path": "/"}}}
    await kubectl.apply(pod("unhooked", script("unhooked", "exec sleep 300", lifecycle=hook), restartPolicy="Never"))
    over = await kubectl.until(is_over, "pod", "unhooked")
    assert container_of(over)["state"]["terminated"]["exitCode"] == 143
    assert await events_of(kubectl, "unhooked", "FailedPostStartHook")


async def test_a_sidecar_runs_beside_the_others_and_ends_after_them(host: EmbeddedHost, kubectl: Kubectl) -> None:
    sidecar = script(
        "sidecar",
        "trap 'cat /shared/story; exit 0' TERM; echo up | tee /shared/up >> /shared/story; while :; do sleep 0.1; done",
        restartPolicy="Always",
        startupProbe={"exec": {"command": ["test", "-e", "/shared/up"]}, "periodSeconds": 1},
        volumeMounts=[SHARED],
    )
    second = script("second", "cat /shared/up && echo init >> /shared/story", volumeMounts=[SHARED])
    job = script("job", "echo job >> /shared/story", volumeMounts=[SHARED])
    await kubectl.apply(
        pod("train", job, initContainers=[sidecar, second], restartPolicy="Never", volumes=[SHARED_VOLUME])
    )
    over = await kubectl.until(is_over, "pod", "train")
    assert over["status"]["phase"] == "Succeeded"
    log = host.pod_logs_dir / f"default_train_{over['metadata']['uid']}" / "sidecar" / "0.log"
    assert log.read_text() == "up\ninit\njob\n"


async def test_a_container_leaves_its_last_words(kubectl: Kubectl) -> None:
    await kubectl.apply(
        pod(
            "words",
            script("told", "echo because > /dev/termination-log; exit 3"),
            script("logged", "echo from the log; exit 4", terminationMessagePolicy="FallbackToLogsOnError"),
            script("missing", "true") | {"command": ["no-such-program"]},
            restartPolicy="Never",
        )
    )
    over = await kubectl.until(is_over, "pod", "words")
    told, logged, missing = (container_of(over, index)["state"]["terminated"] for index in range(3))
    assert (told["exitCode"], told["reason"], told["message"]) == (3, "Error", "because\n")
    assert logged["message"] == "from the log\n"
    assert (missing["exitCode"], missing["reason"]) == (128, "StartError")
    assert "executable file not found" in missing["message"]
    assert {one["type"]: one.get("reason") for one in over["status"]["conditions"]}["Ready"] == "PodFailed"


async def test_what_a_container_waits_for_is_named(kubectl: Kubectl) -> None:
    by_env = script("env", "true", envFrom=[{"configMapRef": {"name": "absent"}}])
    await kubectl.apply(pod("wants-env", by_env))
    stuck = await kubectl.until(lambda pod: "message" in waiting_of(pod), "pod", "wants-env")
    assert waiting_of(stuck) == {"reason": "CreateContainerConfigError", "message": 'configmap "absent" not found'}
    by_volume = script("volume", "true", volumeMounts=[{"name": "secret", "mountPath": "/secret"}])
    await kubectl.apply(
        pod("wants-secret", by_volume, volumes=[{"name": "secret", "secret": {"secretName": "absent"}}])
    )
    [failed] = await events_of(kubectl, "wants-secret", "FailedMount")
    assert failed["message"] == 'MountVolume.SetUp failed for volume "secret" : secret "absent" not found'
    assert waiting_of(await kubectl.get("pod", "wants-secret"))["reason"] == "ContainerCreating"
    await kubectl("delete", "pod", "wants-env", "wants-secret")


async def test_what_is_optional_may_be_missing(kubectl: Kubectl) -> None:
    await kubectl.apply(
        config_map("letters", A="a"),
        pod(
            "optional",
            script(
                "optional",
                "echo $P_A-$B; ls /files",
                envFrom=[
                    {"configMapRef": {"name": "letters"}, "prefix": "P_"},
                    {"secretRef": {"name": "absent", "optional": True}},
                ],
                env=[{"name": "B", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "b", "optional": True}}}],
                volumeMounts=[{"name": "files", "mountPath": "/files"}],
            ),
            restartPolicy="Never",
            volumes=[
                {
                    "name": "files",
                    "projected": {
                        "sources": [
                            {"configMap": {"name": "letters", "items": [{"key": "A", "path": "chosen"}]}},
                            {"configMap": {"name": "absent", "optional": True}},
                        ]
                    },
                }
            ],
        ),
    )
    await kubectl.until(is_over, "pod", "optional")
    assert (await kubectl("logs", "optional")).split() == ["a-", "chosen"]


async def test_probes_that_fail_say_why_and_a_startup_probe_ends_the_container(kubectl: Kubectl) -> None:
    sick = {"exec": {"command": ["sh", "-c", "echo feverish; exit 2"]}, "periodSeconds": 1, "failureThreshold": 1}
    await kubectl.apply(pod("sick", script("sick", "exec sleep 300", startupProbe=sick)))
    await kubectl.until(lambda pod: container_of(pod)["restartCount"] >= 1, "pod", "sick")
    [unhealthy] = await events_of(kubectl, "sick", "Unhealthy")
    assert unhealthy["message"] == "Startup probe failed: command exited with code 2: feverish"
    [killing] = await events_of(kubectl, "sick", "Killing")
    assert "failed startup probe" in killing["message"]
    await kubectl("delete", "pod", "sick", "--force", "--grace-period=0", check=False)


async def test_a_pod_that_is_active_too_long_fails(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("slow", script("slow", "exec sleep 300"), activeDeadlineSeconds=1))
    over = await kubectl.until(is_over, "pod", "slow")
    assert (over["status"]["phase"], over["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert container_of(over)["state"]["terminated"]["exitCode"] == 143


async def test_new_labels_show_up_in_a_running_container(kubectl: Kubectl) -> None:
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    memory = {
        "path": "memory",
        "resourceFieldRef": {"containerName": "me", "resource": "requests.memory", "divisor": "1Mi"},
    }
    await kubectl.apply(
        pod(
            "me",
            script(
                "me",
                "until grep -q mood /me/labels; do sleep 0.1; done; cat /me/labels /me/memory",
                volumeMounts=[{"name": "me", "mountPath": "/me"}],
                resources={"requests": {"memory": "64Mi"}},
            ),
            restartPolicy="Never",
            volumes=[{"name": "me", "downwardAPI": {"items": [labels, memory]}}],
        )
    )
    await kubectl.until(lambda pod: "running" in container_of(pod)["state"], "pod", "me")
    await kubectl("label", "pod", "me", "mood=good")
    assert await kubectl("logs", "-f", "me") == 'mood="good"64'


async def test_a_claim_outlives_its_pod_and_goes_with_its_owner(host: EmbeddedHost, kubectl: Kubectl) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    keeper = script(
        "keeper",
        "echo $(POD_NAME) >> /data/visits; touch /data/ready; exec sleep 300",
        env=[POD_NAME],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        readinessProbe={"exec": {"command": ["test", "-e", "/data/ready"]}, "periodSeconds": 1},
    )
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "keeper", "namespace": "default"},
        "spec": {
            "serviceName": "keeper",
            "selector": {"matchLabels": {"app": "keeper"}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
            "volumeClaimTemplates": [claim],
            "template": {
                "metadata": {"labels": {"app": "keeper"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [keeper]},
            },
        },
    }
    await kubectl.apply(stateful_set)
    first = await kubectl.until(lambda pods: pods["items"] and is_ready(pods["items"][0]), "pods", "-l", "app=keeper")
    uid = first["items"][0]["metadata"]["uid"]
    # kubectl's own waiting may miss the moment between a Pod and its successor of the same name.
    await kubectl("delete", "pod", "keeper-0", "--wait=false")
    await kubectl.until(
        lambda pods: any(is_ready(pod) and pod["metadata"]["uid"] != uid for pod in pods["items"]),
        *("pods", "-l", "app=keeper"),
    )
    visits = host.dir / "claims" / "default" / "data-keeper-0" / "visits"
    assert visits.read_text() == "keeper-0\nkeeper-0\n"
    await kubectl("delete", "statefulset", "keeper", "--cascade=foreground")
    await kubectl.until(lambda claims: not claims["items"], "persistentvolumeclaims")
    await kubectl.until(lambda volumes: not volumes["items"], "persistentvolumes")
    assert not visits.exists()


async def test_a_stateful_set_rolls_through_a_new_template_in_order(kubectl: Kubectl) -> None:
    def stateful_set(word: str) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "roll", "namespace": "default"},
            "spec": {
                "serviceName": "roll",
                "replicas": 2,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "roll"}},
                "template": {
                    "metadata": {"labels": {"app": "roll"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [script("roll", f"echo {word}; exec sleep 300")],
                    },
                },
            },
        }

    await kubectl.apply(stateful_set("old"))
    await kubectl("rollout", "status", "statefulset/roll", "--timeout=30s")
    before = await kubectl.get("pods", "-l", "app=roll")
    await kubectl.apply(stateful_set("new"))
    await kubectl("rollout", "status", "statefulset/roll", "--timeout=60s")
    after = await kubectl.get("pods", "-l", "app=roll")
    assert [await kubectl("logs", f"roll-{ordinal}") for ordinal in (0, 1)] == ["new\n", "new\n"]
    addresses = [{one["status"]["podIP"] for one in pods["items"]} for pods in (before, after)]
    assert addresses[0] == addresses[1]
    began = {one["metadata"]["name"]: one["metadata"]["creationTimestamp"] for one in after["items"]}
    assert began["roll-1"] <= began["roll-0"]
    await kubectl("delete", "statefulset", "roll", "--wait=false")


async def test_logs_know_when_a_line_was_written(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("clock", script("clock", "echo early; sleep 4; echo late; exec sleep 300")))
    async with asyncio.timeout(30):
        while "late" not in await kubectl("logs", "clock", check=False):
            await asyncio.sleep(0.2)
    assert await kubectl("logs", "clock", "--since=2s") == "late\n"
    stamps = [line.split(" ")[0] for line in (await kubectl("logs", "clock", "--timestamps")).splitlines()]
    assert stamps[0] < stamps[1]
    assert await kubectl("logs", "clock", "--limit-bytes=3") == "ear"
    await kubectl("delete", "pod", "clock", "--grace-period=0", "--force", check=False)


async def test_a_lasting_trouble_is_one_event_that_is_counted(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("loop", script("loop", "exit 9")))
    looping = await kubectl.until(
        lambda pod: container_of(pod)["restartCount"] >= 2 and bool(waiting_of(pod)), "pod", "loop"
    )
    assert waiting_of(looping)["reason"] == "CrashLoopBackOff"
    assert waiting_of(looping)["message"].startswith("back-off 2s restarting failed container=loop pod=loop_default(")
    counted = await kubectl.until(
        lambda events: events["items"] and events["items"][0]["count"] >= 2,
        "events",
        "--field-selector=involvedObject.name=loop,reason=BackOff",
    )
    assert len(counted["items"]) == 1
    await kubectl("delete", "pod", "loop")


async def test_the_node_says_what_it_is_and_that_it_lives(kubectl: Kubectl) -> None:
    node = await kubectl.get("node", "embedded")
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert {"MemoryPressure", "DiskPressure", "PIDPressure"} <= conditions.keys()
    assert int(node["status"]["allocatable"]["cpu"]) >= int(node["status"]["capacity"]["cpu"])
    lease = await kubectl.get("lease", "-n", "kube-node-lease", "embedded")
    assert lease["spec"]["holderIdentity"] == "embedded"


async def test_a_pod_that_asks_for_more_than_the_node_offers_waits(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("huge", script("huge", "true", resources={"requests": {"cpu": "1000"}})))
    [refused] = await events_of(kubectl, "huge", "FailedScheduling")
    assert "Insufficient cpu" in refused["message"]
    await kubectl("delete", "pod", "huge")

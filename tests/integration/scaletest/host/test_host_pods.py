"""Pods on the embedded host: real control plane, containers as local processes."""

import os
import signal
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from bigfleet.kube import KubeConfig
from scaletest.host.addresses import KUBELET_PORT
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.markers import POD_MARKER, marked
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.host.host_pods import (
    POD_IP,
    POD_NAME,
    SERVE,
    config_map,
    container_of,
    is_over,
    is_ready,
    page_of,
    pod,
    process_of,
    script,
)
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

# Asks the apiserver, under its cluster name, who we are.
WHO_AM_I = """
import json, ssl, urllib.request
where = "/var/run/secrets/kubernetes.io/serviceaccount"
request = urllib.request.Request(
    "https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews",
    data=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode(),
    headers={"Authorization": "Bearer " + open(where + "/token").read(), "Content-Type": "application/json"},
)
context = ssl.create_default_context(cafile=where + "/ca.crt")
print(json.load(urllib.request.urlopen(request, context=context))["status"]["userInfo"]["username"])
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(kubectl: Kubectl) -> list[dict[str, Any]]:
    """Two pods of a StatefulSet in a restricted namespace, Ready."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "web", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 8080}]},
    }
    www = {"name": "www", "mountPath": "/www"}
    server = script(
        "server",
        f"cat /etc/peers/peers.txt; {SERVE}",
        env=[POD_IP],
        ports=[{"name": "http", "containerPort": 8080}],
        readinessProbe={"httpGet": {"port": "http", "path": "/index.html"}},
        resources={"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}},
        volumeMounts=[www, {"name": "peers", "mountPath": "/etc/peers"}],
    )
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "initContainers": [
                script("init", "echo I am $(POD_NAME) | tee /www/index.html", env=[POD_NAME], volumeMounts=[www])
            ],
            "containers": [server],
            "volumes": [{"name": "www", "emptyDir": {}}, {"name": "peers", "configMap": {"name": "peers"}}],
        },
    }
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "web"},
        "spec": {
            "serviceName": "web",
            "replicas": 2,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }
    peers = config_map("peers", "web", **{"peers.txt": "web-1.web.web.svc:8080 web.web.svc files=/www\n"})
    await kubectl.apply(namespace, peers, service, stateful_set)
    found = await kubectl.until(
        lambda pods: len(pods["items"]) == 2 and all(map(is_ready, pods["items"])), "pods", "-n", "web"
    )
    return sorted(found["items"], key=lambda one: str(one["metadata"]["name"]))


async def test_a_stateful_set_serves_from_files_that_its_init_container_wrote(web: list[dict[str, Any]]) -> None:
    assert [await page_of(one) for one in web] == ["I am web-0", "I am web-1"]


async def test_logs_show_peers_as_addresses_and_mounts_as_directories(
    host: EmbeddedHost, kubectl: Kubectl, web: list[dict[str, Any]]
) -> None:
    one = web[1]["status"]["podIP"]
    first_line = (await kubectl("logs", "-n", "web", "web-0", "-c", "server")).splitlines()[0]
    peer, service, files = first_line.split()
    assert peer == f"{one}:8080"
    async with aiohttp.ClientSession() as http, http.get(f"http://{service}:8080/index.html") as answer:
        assert (await answer.text()).startswith("I am web-")
    assert Path(files.removeprefix("files=")).is_relative_to(host.dir)
    assert await kubectl("logs", "-n", "web", "web-1", "-c", "init") == "I am web-1\n"


async def test_a_deleted_pod_comes_back_under_its_address(kubectl: Kubectl, web: list[dict[str, Any]]) -> None:
    before = web[1]
    # kubectl's own wait may take the successor, which has the same name, for the Pod that is to go.
    await kubectl("delete", "pod", "-n", "web", "web-1", "--wait=false")

    def successors(pods: Any) -> list[Any]:
        known = {pod["metadata"]["uid"] for pod in web}
        return [pod for pod in pods["items"] if pod["metadata"]["uid"] not in known and is_ready(pod)]

    [after] = successors(await kubectl.until(lambda pods: bool(successors(pods)), "pods", "-n", "web"))
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert not marked(**{POD_MARKER: before["metadata"]["uid"]})


async def test_a_killed_process_is_restarted_in_its_pod(kubectl: Kubectl, web: list[dict[str, Any]]) -> None:
    os.kill(process_of(web[0]), signal.SIGKILL)
    after = await kubectl.until(
        lambda pod: container_of(pod)["restartCount"] == 1 and is_ready(pod), "pod", "-n", "web", "web-0"
    )
    assert after["metadata"]["uid"] == web[0]["metadata"]["uid"]
    assert container_of(after)["lastState"]["terminated"]["exitCode"] == 137
    assert await page_of(after) == "I am web-0"


async def test_what_is_not_enforced_is_said_once(kubectl: Kubectl, web: list[dict[str, Any]]) -> None:
    uid = web[0]["metadata"]["uid"]
    events = await kubectl.get("events", "-n", "web", f"--field-selector=reason=NotEnforced,involvedObject.uid={uid}")
    [event] = events["items"]
    assert event["message"].endswith(
        "runAsNonRoot, capabilities, seccompProfile, allowPrivilegeEscalation, resource limits"
    )


async def test_a_pod_knows_itself_and_is_known_to_the_apiserver(kubectl: Kubectl) -> None:
    await kubectl.apply(
        config_map("settings", COLOUR="green", greeting="hello"),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"word": "sesame"}},
        pod(
            "facts",
            {
                "name": "facts",
                "image": "none",
                "command": ["sh", "-c", 'echo "$0"; echo $COLOUR $BOTH; cat /secret/word; python -c "$1"; pwd'],
                "args": ["$(POD_NAME) on $(NODE) at $(POD_IP) $$(POD_IP)", WHO_AM_I],
                "workingDir": "/desk",
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "env": [
                    POD_NAME,
                    POD_IP,
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "word"}}},
                    {"name": "BOTH", "value": "$(WORD)/$(greeting)"},
                ],
                "volumeMounts": [
                    {"name": "secret", "mountPath": "/secret"},
                    {"name": "desk", "mountPath": "/desk", "subPath": "deep/down"},
                ],
            },
            restartPolicy="Never",
            volumes=[{"name": "secret", "secret": {"secretName": "password"}}, {"name": "desk", "emptyDir": {}}],
        ),
    )
    over = await kubectl.until(is_over, "pod", "facts")
    lines = (await kubectl("logs", "facts")).splitlines()
    address = over["status"]["podIP"]
    assert lines[:2] == [f"facts on embedded at {address} $(POD_IP)", "green sesame/hello"]
    assert lines[2] == "sesamesystem:serviceaccount:default:default"
    assert lines[3].endswith("/desk/deep/down")
    assert over["status"]["phase"] == "Succeeded"


async def test_a_crashing_container_backs_off_and_shows_its_exit_code(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("crash", script("crash", "echo attempt; exit 7")))
    crashed = await kubectl.until(lambda pod: container_of(pod)["restartCount"] == 2, "pod", "crash")
    status = container_of(crashed)
    assert status["lastState"]["terminated"]["exitCode"] == 7
    waiting = await kubectl.until(lambda pod: "waiting" in container_of(pod)["state"], "pod", "crash")
    assert container_of(waiting)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert await kubectl("logs", "crash", "--previous") == "attempt\n"
    await kubectl("delete", "pod", "crash")


async def test_a_container_without_a_command_waits_and_says_so(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("empty", {"name": "empty", "image": "nginx"}))
    stuck = await kubectl.until(lambda pod: "message" in container_of(pod)["state"].get("waiting", {}), "pod", "empty")
    assert "has no command" in container_of(stuck)["state"]["waiting"]["message"]
    await kubectl("delete", "pod", "empty")


async def test_a_container_waits_for_the_config_map_that_it_mounts(kubectl: Kubectl) -> None:
    late = {"name": "late", "configMap": {"name": "late"}}
    mount = [{"name": "late", "mountPath": "/late"}]
    await kubectl.apply(
        pod("late", script("late", "cat /late/word", volumeMounts=mount), restartPolicy="Never", volumes=[late])
    )
    await kubectl.until(lambda pod: "message" in container_of(pod)["state"].get("waiting", {}), "pod", "late")
    await kubectl.apply(config_map("late", word="at last"))
    await kubectl.until(is_over, "pod", "late")
    assert await kubectl("logs", "late") == "at last"


async def test_a_mounted_config_map_changes_under_a_running_container(kubectl: Kubectl) -> None:
    await kubectl.apply(
        config_map("live", word="old"),
        pod(
            "live",
            script(
                "live",
                "until grep -q new /live/word; do sleep 0.1; done; echo seen",
                volumeMounts=[{"name": "live", "mountPath": "/live"}],
            ),
            restartPolicy="Never",
            volumes=[{"name": "live", "configMap": {"name": "live"}}],
        ),
    )
    await kubectl.until(lambda pod: "running" in container_of(pod)["state"], "pod", "live")
    await kubectl.apply(config_map("live", word="new"))
    assert await kubectl("logs", "-f", "live") == "seen\n"


async def test_a_container_is_asked_to_end_and_takes_its_strays_with_it(host: EmbeddedHost, kubectl: Kubectl) -> None:
    polite = "trap 'echo bye; exit 0' TERM; setsid sleep 300 & echo up; while :; do sleep 0.1; done"
    await kubectl.apply(pod("polite", script("polite", polite)))
    running = await kubectl.until(is_ready, "pod", "polite")
    uid = running["metadata"]["uid"]
    await eventually(lambda: len(marked(**{POD_MARKER: uid})) >= 2)
    await kubectl("delete", "pod", "polite")
    log = host.pod_logs_dir / f"default_polite_{uid}" / "polite" / "0.log"
    assert log.read_text().endswith("bye\n")
    assert not marked(**{POD_MARKER: uid})


async def test_a_pod_waits_for_its_namesake_that_was_deleted_by_force(kubectl: Kubectl) -> None:
    deaf = pod("deaf", script("deaf", "trap '' TERM; while :; do sleep 0.1; done"))
    await kubectl.apply(deaf)
    old = await kubectl.until(is_ready, "pod", "deaf")
    await kubectl("delete", "pod", "deaf", "--force", "--grace-period=0", check=False)
    await kubectl.apply(deaf)
    new = await kubectl.until(is_ready, "pod", "deaf")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["status"]["podIP"] == old["status"]["podIP"]
    assert not marked(**{POD_MARKER: old["metadata"]["uid"]})


async def test_probes_by_exec_and_tcp_decide_about_readiness_and_life(kubectl: Kubectl) -> None:
    shared = [{"name": "shared", "mountPath": "/shared"}]
    by_file = {"exec": {"command": ["test", "-e", "/shared/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    alive = {
        "exec": {"command": ["test", "!", "-e", "/shared/sick"]},
        "initialDelaySeconds": 1,
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    listening = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    await kubectl.apply(
        pod(
            "probed",
            script(
                "exec",
                "rm -f /shared/sick; exec sleep 300",
                readinessProbe=by_file,
                livenessProbe=alive,
                volumeMounts=shared,
            ),
            script(
                "tcp",
                "mkdir /www; exec python -m http.server 8080 --bind $(POD_IP)",
                env=[POD_IP],
                readinessProbe=listening,
            ),
            volumes=[{"name": "shared", "emptyDir": {}}],
        )
    )
    half = await kubectl.until(
        lambda pod: [one["ready"] for one in pod["status"].get("containerStatuses", [])] == [False, True],
        "pod",
        "probed",
    )
    assert not is_ready(half)
    [directory] = Path(f"/proc/{process_of(half)}/cwd").resolve().parents[2].glob("shared/shared")
    (directory / "ready").touch()
    await kubectl.until(is_ready, "pod", "probed")
    (directory / "sick").touch()
    ill = await kubectl.until(lambda pod: container_of(pod)["restartCount"] == 1, "pod", "probed")
    assert container_of(ill)["lastState"]["terminated"]["signal"] == signal.SIGTERM
    await kubectl("delete", "pod", "probed")


async def test_a_job_completes_and_its_pod_leaves_with_it(kubectl: Kubectl) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [script("sum", "echo $((40 + 2))")]}}},
    }
    await kubectl.apply(job)
    await kubectl("wait", "--for=condition=complete", "job/sum", "--timeout=30s")
    assert await kubectl("logs", "job/sum") == "42\n"
    await kubectl("delete", "job", "sum", "--cascade=foreground")
    assert (await kubectl.get("pods", "-l", "job-name=sum"))["items"] == []


async def test_a_pod_that_wants_the_machine_is_refused(kubectl: Kubectl) -> None:
    await kubectl.apply(pod("greedy", script("greedy", "true"), hostNetwork=True))
    refused = await kubectl.until(is_over, "pod", "greedy")
    assert (refused["status"]["phase"], refused["status"]["reason"]) == ("Failed", "Refused")
    assert "hostNetwork" in refused["status"]["message"]
    await kubectl.until(
        lambda events: len(events["items"]) == 1,
        "events",
        "--field-selector=reason=Refused,involvedObject.name=greedy",
    )
    await kubectl("delete", "pod", "greedy")


async def test_the_kubelet_answers_nobody_but_the_apiserver(host: EmbeddedHost) -> None:
    url = f"https://{host.address}:{KUBELET_PORT}/containerLogs/web/web-0/server"
    anonymous = ssl.create_default_context(cafile=str(host.dir / "pki" / "ca.crt"))
    other = KubeConfig.from_file(host.kubeconfig).ssl_context()
    assert other is not None
    async with aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.ClientError):
            await http.get(url, ssl=anonymous)
        async with http.get(url, ssl=other) as answer:
            assert answer.status == 403

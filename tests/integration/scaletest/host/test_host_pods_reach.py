"""How pods of the embedded host find each other, and how people reach into them."""

import asyncio
import fcntl
import os
import signal
import struct
import termios
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from scaletest import toolchain
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.markers import CONTAINER_MARKER, POD_MARKER, marked
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.host.host_pods import POD_IP, POD_NAME, container_of, is_over, is_ready, pod, script
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

SERVE_NAME = "mkdir www; echo $(POD_NAME) > www/index.html; exec python -m http.server 8080 --bind $(POD_IP) -d www"
# Finds a name out by itself, as programs do: nothing of it stands in the pod's spec.
LOOK_UP = "import socket, sys; print(*sorted({one[4][0] for one in socket.getaddrinfo('.'.join(sys.argv[1:]), 8080)}))"


def service(name: str, *, headless: bool = False, **port: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"selector": {"app": "echo"}, "ports": [{"port": 8080} | port]}
    if headless:
        spec["clusterIP"] = "None"
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echo(kubectl: Kubectl) -> None:
    """A Deployment of two servers behind three Services, and a client that lives through all that happens to them."""
    server = script(
        "server",
        SERVE_NAME,
        env=[POD_IP, POD_NAME],
        ports=[{"name": "http", "containerPort": 8080}],
        readinessProbe={"httpGet": {"port": "http"}, "periodSeconds": 1},
    )
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "echo", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "echo"}},
            "template": {
                "metadata": {"labels": {"app": "echo"}},
                "spec": {"terminationGracePeriodSeconds": 2, "containers": [server]},
            },
        },
    }
    client = pod(
        "client",
        script("client", "exec sleep 1000", env=[{"name": "ECHO", "value": "http://echo.default.svc:9000"}]),
        script("aside", "exec sleep 1000"),
        hostname="the-client",
    )
    await kubectl.apply(
        service("echo", port=9000, targetPort="http"), service("peers", headless=True), deployment, client
    )
    await kubectl("rollout", "status", "deployment/echo", "--timeout=60s")
    await kubectl.until(is_ready, "pod", "client")


async def inside(kubectl: Kubectl, *command: str, stdin: str = "", check: bool = True) -> str:
    return (await kubectl("exec", "client", "-c", "client", "-i", "--", *command, stdin=stdin, check=check)).strip()


async def addresses_of(kubectl: Kubectl) -> list[str]:
    pods = await kubectl.get("pods", "-l", "app=echo", "--field-selector=status.phase=Running")
    return sorted(one["status"]["podIP"] for one in pods["items"] if "deletionTimestamp" not in one["metadata"])


async def is_isolated(kubectl: Kubectl) -> bool:
    """Whether pods have hosts files of their own here; where they have not, each says so."""
    events = await kubectl.get("events", "--field-selector=reason=NotEnforced,involvedObject.name=client")
    return not any("no user namespaces here" in event["message"] for event in events["items"])


async def test_a_command_runs_inside_a_container_with_its_streams_and_exit_code(kubectl: Kubectl, echo: None) -> None:
    assert await inside(kubectl, "sh", "-c", "tr a-z A-Z; echo $HOSTNAME", stdin="hello ") == "HELLO the-client"
    both = await kubectl("exec", "client", "--", "sh", "-c", "echo out; echo err >&2; exit 3", check=False)
    assert {"out", "err", "command terminated with exit code 3"} <= set(both.splitlines())
    assert "executable file not found" in await inside(kubectl, "no-such-program", check=False)
    megabyte = await inside(kubectl, "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
    assert len(megabyte) == 1_000_000


async def test_a_terminal_is_a_terminal(
    kubectl: Kubectl, host: EmbeddedHost, host_tools: toolchain.Toolchain, echo: None
) -> None:
    # kubectl asks for a terminal only if it has one itself.
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    process = await asyncio.create_subprocess_exec(
        str(host_tools.path("kubectl")),
        *(f"--kubeconfig={host.kubeconfig}", "exec", "-it", "client", "-c", "client", "--"),
        *("sh", "-c", "until [ \"$(stty size)\" != '0 0' ]; do sleep 0.1; done; tty; stty size"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    async with asyncio.timeout(20):
        await process.wait()
    terminal, size = os.read(ours, 4096).decode().split("\r\n")[:2]
    os.close(ours)
    assert terminal.startswith("/dev/pts/")
    assert size == "33 99"


async def test_a_container_that_ends_takes_the_commands_in_it_along(kubectl: Kubectl, echo: None) -> None:
    running = asyncio.create_task(
        kubectl("exec", "client", "-c", "aside", "--", "sh", "-c", "echo here; exec sleep 1000", check=False)
    )
    pid = container_of(await kubectl.get("pod", "client"), 1)["containerID"].removeprefix("process://")
    uid = (await kubectl.get("pod", "client"))["metadata"]["uid"]
    await eventually(lambda: len(marked(**{POD_MARKER: uid, CONTAINER_MARKER: "aside"})) == 2)
    os.kill(int(pid), signal.SIGKILL)
    assert "command terminated with exit code 137" in await running
    await kubectl.until(is_ready, "pod", "client")


async def test_a_port_is_forwarded(
    kubectl: Kubectl, host: EmbeddedHost, host_tools: toolchain.Toolchain, echo: None
) -> None:
    process = await asyncio.create_subprocess_exec(
        str(host_tools.path("kubectl")),
        *(f"--kubeconfig={host.kubeconfig}", "port-forward", "svc/echo", ":9000"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        line = (await process.stdout.readline()).decode()
    port = line.split(" -> ")[0].rpartition(":")[2]
    try:
        async with aiohttp.ClientSession() as http:
            for _ in range(3):
                async with http.get(f"http://127.0.0.1:{port}/") as answer:
                    assert (await answer.text()).startswith("echo-")
    finally:
        process.terminate()
        await process.communicate()


async def test_a_service_leads_to_pods_that_are_ready_now(kubectl: Kubectl, echo: None) -> None:
    """The address that a client learned at its start stays good when every pod behind it has been replaced."""
    ask = ("sh", "-c", "for i in 1 2 3 4; do curl -s --max-time 5 $ECHO/index.html; done; true")
    before = set((await inside(kubectl, *ask)).split())
    assert len(before) == 2
    await kubectl("rollout", "restart", "deployment/echo")
    await kubectl("rollout", "status", "deployment/echo", "--timeout=60s")
    after = set((await inside(kubectl, *ask)).split())
    assert after
    assert not after & before
    await kubectl("scale", "deployment/echo", "--replicas=0")
    await kubectl("wait", "pod", "--for=delete", "-l", "app=echo", "--timeout=30s")
    assert await inside(kubectl, *ask) == ""
    await kubectl("scale", "deployment/echo", "--replicas=2")
    await kubectl("rollout", "status", "deployment/echo", "--timeout=60s")
    assert len(set((await inside(kubectl, *ask)).split())) == 2


async def test_names_made_at_run_time_resolve_and_follow_what_happens(kubectl: Kubectl, echo: None) -> None:
    async def found(*labels: str) -> list[str]:
        return (await inside(kubectl, "python", "-c", LOOK_UP, *labels, check=False)).split()

    if not await is_isolated(kubectl):
        pytest.skip("this machine grants no user namespaces, and the pods say so")
    assert await inside(kubectl, "hostname") == "the-client"
    [address] = await found("echo")
    assert [address] == await found("echo", "default", "svc", "cluster", "local")
    assert (await kubectl.get("service", "echo"))["spec"]["clusterIP"] == address
    assert await found("peers", "default") == await addresses_of(kubectl)
    await kubectl("scale", "deployment/echo", "--replicas=3")
    await kubectl("rollout", "status", "deployment/echo", "--timeout=60s")

    async def all_three() -> bool:
        return await found("peers") == await addresses_of(kubectl)

    await eventually(all_three)
    assert len(await found("peers")) == 3
    assert "Name or service not known" in " ".join(await found("late"))
    await kubectl.apply(service("late", port=9001, targetPort=8080))

    async def appeared() -> bool:
        return len(await found("late")) == 1

    await eventually(appeared)


async def test_a_pod_finds_services_in_its_environment(kubectl: Kubectl, echo: None) -> None:
    await kubectl.apply(pod("env", script("env", "echo $ECHO_SERVICE_HOST $ECHO_SERVICE_PORT"), restartPolicy="Never"))
    await kubectl.until(is_over, "pod", "env")
    address = (await kubectl.get("service", "echo"))["spec"]["clusterIP"]
    assert await kubectl("logs", "env") == f"{address} 9000\n"


async def test_a_service_may_have_a_port_that_its_user_may_not_open(kubectl: Kubectl, echo: None) -> None:
    ask = script("ask", "curl -s http://low.default.svc/index.html low.default.svc:80/index.html")
    await kubectl.apply(service("low", port=80, targetPort="http"))
    await kubectl.apply(pod("ask", ask, restartPolicy="OnFailure"))
    await kubectl.until(is_over, "pod", "ask")
    answers = (await kubectl("logs", "ask")).split()
    assert [one.rsplit("-", 2)[0] for one in answers] == ["echo", "echo"]


async def test_what_a_service_cannot_do_is_said(kubectl: Kubectl) -> None:
    await kubectl.apply(service("datagrams", port=5353, protocol="UDP"))
    events = await kubectl.until(
        lambda events: events["items"], "events", "--field-selector=involvedObject.kind=Service,reason=ServicePort"
    )
    assert "only TCP" in events["items"][0]["message"]

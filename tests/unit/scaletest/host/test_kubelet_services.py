"""Services in user space: who is behind a name, and that connections get there."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bigfleet.kube import KubeClient, KubeConfig, Object, key_of
from scaletest.host.addresses import Network, PodAddresses
from scaletest.host.kubelet.network.hosts import host_name, hosts_text
from scaletest.host.kubelet.network.names import PodNames, lowest_port, served_port
from scaletest.host.kubelet.network.relay import splice
from scaletest.host.kubelet.network.rewrite import ServiceName
from scaletest.host.kubelet.network.services import target_port

NETWORK = Network(200)


def pod(name: str, *, namespace: str = "demo", ready: bool = True, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]} | spec,
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def service(name: str, namespace: str = "demo", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "127.200.128.9", "selector": {"app": "web"}, "ports": [{"port": 90}]} | spec,
    }


class Services:
    """The Services of a cluster as an informer shows them."""

    def __init__(self, *items: Object) -> None:
        self._items = {key_of(item): item for item in items}

    def get(self, key: str) -> Object | None:
        return self._items.get(key)

    def __iter__(self) -> Iterator[Object]:
        return iter(self._items.values())


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> PodNames:
    client = KubeClient(KubeConfig("https://127.0.0.1:1"), user_agent="test")
    known = PodNames(client, NETWORK, PodAddresses(NETWORK))
    services = Services(
        service("web"),
        service("peers", clusterIP="None"),
        service("far", type="ExternalName", externalName="example.com", clusterIP=""),
        service("other", namespace="elsewhere", clusterIP="127.200.128.10"),
    )
    monkeypatch.setattr(known, "services", services)
    known.know(
        [
            pod("web-0", hostname="web-0", subdomain="peers"),
            pod("web-1", hostname="web-1", subdomain="peers", ready=False),
            pod("web-2", namespace="elsewhere"),
        ]
    )
    return known


async def test_a_pod_behind_a_service_has_one_address_for_ever(names: PodNames) -> None:
    first = names.resolve(pod("me"), ServiceName("demo", "peers", "web-7"))
    assert first
    assert first == names.resolve(pod("you"), ServiceName("demo", "peers", "web-7"))


async def test_one_pod_can_be_led_to_a_relay_while_the_others_are_not(names: PodNames) -> None:
    peer = ServiceName("demo", "peers", "web-0")
    direct = names.resolve(pod("you"), peer)
    names.divert("demo/me", "demo/web-0", "127.200.77.7")
    assert names.changed.is_set()
    diverted = names.resolve(pod("me"), peer)
    assert diverted
    assert diverted.address == "127.200.77.7"
    assert "127.200.77.7\tweb-0.peers.demo.svc" in hosts_text(pod("me"), "127.200.9.9", names, "")
    assert names.resolve(pod("you"), peer) == direct


async def test_a_service_is_found_at_its_cluster_address_or_at_one_made_for_it(names: PodNames) -> None:
    web, peers = (names.resolve(pod("me"), ServiceName("demo", name)) for name in ("web", "peers"))
    assert web is not None
    assert peers is not None
    assert web.address == "127.200.128.9"
    assert peers.address.startswith("127.200.1.")
    assert names.resolve(pod("me"), ServiceName("demo", "none")) is None
    far = names.resolve(pod("me"), ServiceName("demo", "far"))
    assert far
    assert far.address == "example.com"


async def test_a_headless_service_is_served_only_once_somebody_asked(names: PodNames) -> None:
    peers = service("peers", clusterIP="None")
    assert names.served_at(peers) is None
    asked = names.resolve(pod("me"), ServiceName("demo", "peers"))
    assert names.changed.is_set()
    assert asked
    assert names.served_at(peers) == asked.address


async def test_a_hosts_file_has_every_spelling_that_the_pod_could_use(names: PodNames) -> None:
    text = hosts_text(
        pod("me", hostAliases=[{"ip": "127.1.1.1", "hostnames": ["alias"]}]),
        "127.200.9.9",
        names,
        "127.0.0.1 localhost\n",
    )
    lines = {line.split("\t")[0]: line.split("\t")[-1].split() for line in text.splitlines()[1:]}
    assert text.startswith("127.0.0.1 localhost\n127.200.9.9\tme\n127.1.1.1\talias\n")
    assert lines["127.200.128.9"] == ["web.demo.svc.cluster.local", "web.demo.svc", "web.demo", "web"]
    assert "other" not in lines["127.200.128.10"]
    assert "other.elsewhere" in lines["127.200.128.10"]
    [zero] = [line for line in text.splitlines() if "web-0.peers.demo.svc" in line]
    assert zero.endswith(" web-0.peers")
    assert "web-1.peers" in text
    peers = [line for line in text.splitlines() if line.endswith(" peers")]
    assert [line.split("\t")[0] for line in peers] == [zero.split("\t")[0]]


async def test_services_of_the_namespace_are_in_the_environment(names: PodNames) -> None:
    port = str(served_port(90))
    assert names.environment_of(pod("me")) == {"WEB_SERVICE_HOST": "127.200.128.9", "WEB_SERVICE_PORT": port}
    assert names.environment_of(pod("me", enableServiceLinks=False)) == {}


def test_a_port_that_may_not_be_opened_is_moved_up() -> None:
    assert served_port(lowest_port()) == lowest_port()
    if lowest_port() > 80:
        assert served_port(80) == 20080


def test_a_host_name_is_the_pods_name_unless_it_has_one() -> None:
    assert host_name(pod("web-0")) == "web-0"
    assert host_name(pod("web-0", hostname="other")) == "other"
    assert host_name(pod("a" * 62 + "-b")) == "a" * 62


@pytest.mark.parametrize(
    ("port", "headless", "target"),
    [
        ({"port": 80}, False, 80),
        ({"port": 80, "targetPort": 8080}, False, 8080),
        ({"port": 80, "targetPort": "http"}, False, 8080),
        ({"port": 80, "targetPort": "none"}, False, None),
        ({"port": 80, "targetPort": 8080}, True, 80),
    ],
)
def test_a_port_of_a_service_means_a_port_of_its_pods(port: dict[str, Any], headless: bool, target: int | None) -> None:
    assert target_port(port, pod("web-0"), headless=headless) == target


async def test_bytes_are_carried_both_ways_and_each_end_is_passed_on() -> None:
    """Each side may say its last word after the other has said its own."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as behind:
        place = behind.sockets[0].getsockname()

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await splice((reader, writer), await asyncio.open_connection(*place))

        async with await asyncio.start_server(carry, "127.0.0.1", 0) as front:
            reader, writer = await asyncio.open_connection(*front.sockets[0].getsockname())
            writer.write(b"quiet " * 100_000)
            writer.write_eof()
            async with asyncio.timeout(10):
                assert await reader.read() == b"QUIET " * 100_000
            writer.close()

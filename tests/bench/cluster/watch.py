"""Watch events taken in per second by those who follow Pods and CapacityRequests.

`python -m tests.bench.cluster.watch [PODS]`; 500 unless told otherwise. The frames are real: recorded from the
kube-apiserver of a KWOK cluster whose Pods and their requests come, are bound and acknowledged, and go. They are then
sent again as fast as they are taken, in chunks over TLS as an apiserver does, to each follower's own client, informer
and handler. The sender is a thread of ours that encrypts beside the reader; the reader's own CPU time per event is
shown too.
"""

import asyncio
import gc
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import create_server, socket
from typing import Any

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry, Counter

from bigfleet.kube import Informer, KubeClient, KubeConfig, Object, TypedInformer
from bigfleet.kube.informer import Follower
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, Resource
from bigfleet.operator.requests import CapacityRequest, Requests
from bigfleet.podcontroller.controller import PodController
from bigfleet.security.authority import Authority
from bigfleet.security.files import CERTIFICATE, PRIVATE_KEY
from scaletest import toolchain
from tests.bench.cluster import demand, kwok_cluster
from tests.bench.measuring.report import emit
from tests.bench.measuring.running import run, within
from tests.loopback import own_addresses
from tests.patience import eventually

_ROUNDS = 3
_SECONDS = 120
_RECORDING_SECONDS = 900
_NAMESPACE = "default"
_DELETIONS_AT_ONCE = 16
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LIST = b'{"metadata":{"resourceVersion":"1"},"items":null}'
_EMPTY_LIST = _HEAD + b"Content-Length: %d\r\n\r\n" % len(_LIST) + _LIST
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Recording:
    """A watch's answer, as the apiserver sent it."""

    resource: Resource
    lines: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.lines)) + len(self.lines)

    @property
    def chunked(self) -> bytes:
        """A chunk for every event, and the end."""
        chunks = (b"%x\r\n%s\n\r\n" % (len(line) + 1, line) for line in self.lines)
        return b"".join([*chunks, b"0\r\n\r\n"])


def _controller(client: KubeClient) -> PodController:
    return PodController(client, {}, CollectorRegistry())


def _operator(client: KubeClient) -> Follower[Any]:
    requests = Requests(Counter("skipped", "Left out.", registry=CollectorRegistry()))
    return TypedInformer(client, CAPACITY_REQUESTS, CapacityRequest, on_change=requests.on_change)


# Who follows what, each with its own handler.
FOLLOWERS: dict[str, tuple[Resource, Callable[[KubeClient], Follower[Any]]]] = {
    "an informer alone, Pods": (PODS, lambda client: Informer(client, PODS)),
    "pod-controller, Pods": (PODS, lambda client: _controller(client).pods),
    "pod-controller, its requests": (CAPACITY_REQUESTS, lambda client: _controller(client).requests),
    "operator, requests": (CAPACITY_REQUESTS, _operator),
}


async def measure(pods: int) -> None:
    recordings = await _record(pods)
    with own_addresses() as (ip, _):
        async with kwok_cluster.directory() as folder:
            authority = Authority.create("bench")
            authority.issue_server("bench", ip).write(folder)
            for name, (resource, _) in FOLLOWERS.items():
                player = Player(ip, folder, recordings[resource])
                taken = [await _follow(player, authority.certificate_pem, name) for _ in range(_ROUNDS)]
                _tell(name, recordings[resource], min(one.seconds for one in taken), min(one.cpu for one in taken))


def _tell(name: str, recording: Recording, seconds: float, cpu: float) -> None:
    events = len(recording.lines)
    emit(
        "watch",
        follower=name,
        events=events,
        bytes_each=round(recording.size / events),
        events_per_second=round(events / seconds),
        mb_per_second=round(recording.size / seconds / 1e6, 1),
        cpu_us_each=round(1e6 * cpu / events, 1),
    )


async def _record(pods: int) -> dict[Resource, Recording]:
    """Pods are bound and run, then all of them leave and others come: what watches of them and their requests say."""
    tools = await toolchain.ensure(kwok_cluster.TOOLS)
    async with (
        kwok_cluster.directory() as folder,
        kwok_cluster.whole(folder, tools.bin_dir, demand.load_profile(pods)) as (pod, shard),
        KubeClient(pod.kubeconfig) as kube,
    ):
        tapes = [Tape(resource) for resource in (PODS, CAPACITY_REQUESTS)]
        recording = asyncio.gather(*(tape.run(kube, pod.kubeconfig) for tape in tapes))
        try:
            async with within(_RECORDING_SECONDS, f"{pods:,} Pods exist; their life is recorded"):
                demand.announce_machines(shard, pods)
                await demand.until_bound(kube, pods)
                first, _ = await kube.list(PODS, _NAMESPACE)
                await _delete(kube, first)
                await eventually(partial(_all_run, kube, pods, {one["metadata"]["uid"] for one in first}), 600, 2)
        finally:
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
        return {tape.resource: tape.recording for tape in tapes}


async def _delete(kube: KubeClient, pods: list[Object]) -> None:
    waiting = iter(pods)

    async def work() -> None:
        for pod in waiting:
            await kube.delete(PODS, pod["metadata"]["name"], _NAMESPACE)

    async with asyncio.TaskGroup() as group:
        for _ in range(_DELETIONS_AT_ONCE):
            group.create_task(work())


async def _all_run(kube: KubeClient, pods: int, gone: set[str]) -> bool:
    """Whether the Pods run that came after those."""
    found, _ = await kube.list(PODS, _NAMESPACE, from_cache=True)
    runs = [one["metadata"]["uid"] for one in found if one["status"]["phase"] == "Running"]
    return len(runs) == pods and gone.isdisjoint(runs)


class Tape:
    """Keeps what a watch says, in the apiserver's own bytes."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._lines: list[bytes] = []

    @property
    def recording(self) -> Recording:
        return Recording(self.resource, tuple(self._lines))

    async def run(self, kube: KubeClient, config: KubeConfig) -> None:
        """For ever: an apiserver drops a watch that is too slow for it, as ours may be while Pods are bound."""
        _, version = await kube.list(self.resource)
        connector = aiohttp.TCPConnector(ssl=config.ssl_context() or True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
            while True:
                query = f"watch=true&resourceVersion={version}"
                async with http.get(f"{config.server}{self.resource.path()}?{query}") as answer:
                    answer.raise_for_status()
                    pending = b""
                    async for chunk in answer.content.iter_any():
                        *lines, pending = (pending + chunk).split(b"\n")
                        self._lines += lines
                if self._lines:
                    version = msgspec.json.decode(self._lines[-1])["object"]["metadata"]["resourceVersion"]


@dataclass(frozen=True)
class Taken:
    """What one follower took for one recording."""

    seconds: float
    cpu: float


class Player:
    """Answers one informer: an empty list, then the recorded watch. That it asks for the next watch is its receipt."""

    def __init__(self, ip: str, identity: Path, recording: Recording) -> None:
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(identity / CERTIFICATE, identity / PRIVATE_KEY)
        self._listener = create_server((ip, 0))
        self._watch = _CHUNKED + recording.chunked
        self.url = f"https://{ip}:{self._listener.getsockname()[1]}"

    def play(self, taken: Callable[[float], None]) -> None:
        """Serve one connection to its end; tells the seconds between the first watch and the second."""
        plain, _ = self._listener.accept()
        began = None
        with self._tls.wrap_socket(plain, server_side=True) as connection:
            while request := _request(connection):
                if b"watch=true" not in request:
                    connection.sendall(_EMPTY_LIST)
                elif began is None:
                    began = time.perf_counter()
                    connection.sendall(self._watch)
                else:
                    taken(time.perf_counter() - began)


def _request(connection: socket) -> bytes:
    """The next request's head; empty when nobody asks any more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = connection.recv(4096)
        if not part:
            return b""
        head += part
    return head


async def _follow(player: Player, ca_pem: bytes, name: str) -> Taken:
    loop = asyncio.get_running_loop()
    seconds: asyncio.Future[float] = loop.create_future()
    playing = threading.Thread(
        target=player.play, args=[lambda took: loop.call_soon_threadsafe(seconds.set_result, took)], daemon=True
    )
    playing.start()
    async with KubeClient(KubeConfig(player.url, ca_pem=ca_pem)) as client:
        _, make_informer = FOLLOWERS[name]
        informer = make_informer(client)
        gc.collect()
        began = time.thread_time()
        following = asyncio.create_task(informer.run())
        async with within(_SECONDS, name):
            took = await seconds
        cpu = time.thread_time() - began
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await asyncio.to_thread(playing.join, _SECONDS)
    return Taken(took, cpu)


if __name__ == "__main__":
    run(partial(measure, int(sys.argv[1]) if sys.argv[1:] else 500))

"""What a machine's Node looks like, how long it boots, and how the provider hears of it."""

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from bigfleet.api.v1alpha1.phonehome_pb2 import ReadyReport, ReportClosed
from bigfleet.api.v1alpha1.phonehome_pb2_grpc import PhoneHomeServicer, add_PhoneHomeServicer_to_server
from scaletest.cluster.node_creator import boot_delay_seconds, node_of
from scaletest.cluster.phone_home import PhoneHome


def test_a_node_offers_what_its_upcoming_node_promised() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    spec = {"resources": {"cpu": 4, "memory": "8Gi"}, "labels": {"zone": "a"}, "taints": [taint]}
    node = node_of("m-1", {"spec": spec})
    assert node["metadata"] == {"name": "fake-m-1", "labels": {"zone": "a", "kubernetes.io/hostname": "fake-m-1"}}
    assert node["spec"]["taints"] == [taint]
    assert node["status"]["capacity"] == node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "1100"}


def test_a_promised_number_of_pods_is_kept() -> None:
    assert node_of("m-1", {"spec": {"resources": {"pods": "7"}}})["status"]["capacity"]["pods"] == "7"


def test_boot_delays_have_the_asked_median_and_p99_and_repeat_per_machine() -> None:
    delays = [boot_delay_seconds(f"machine-{index}", 0.5, 2.0) for index in range(4000)]
    quantiles = statistics.quantiles(delays, n=100)
    assert 0.47 < quantiles[49] < 0.53
    assert 1.7 < quantiles[98] < 2.3
    assert delays[7] == boot_delay_seconds("machine-7", 0.5, 2.0)


def test_no_boot_delay_can_be_asked_for() -> None:
    assert boot_delay_seconds("machine", 0, 0) == 0.0


class Provider(PhoneHomeServicer):
    """Keeps the frames of every stream, and hangs up when told to."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[ReadyReport] = asyncio.Queue()
        self.hang_up = asyncio.Event()

    async def Report(self, requests: AsyncIterator[ReadyReport], context: grpc.aio.ServicerContext) -> ReportClosed:  # type: ignore[type-arg]  # noqa: N802
        async def read() -> None:
            async for frame in requests:
                self.frames.put_nowait(frame)

        reading = asyncio.ensure_future(read())
        await self.hang_up.wait()
        self.hang_up.clear()
        reading.cancel()
        return ReportClosed()

    async def next(self) -> ReadyReport:
        async with asyncio.timeout(10):
            return await self.frames.get()


@asynccontextmanager
async def reporting(full_seconds: float = 60) -> AsyncIterator[tuple[Provider, PhoneHome]]:
    provider, server = Provider(), grpc.aio.server()
    add_PhoneHomeServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    phone = PhoneHome("kwok-cluster-0", f"127.0.0.1:{port}", None, full_seconds=full_seconds)
    phone.note("m-2", True)
    phone.note("m-1", True)
    task = asyncio.ensure_future(phone.run())
    try:
        yield provider, phone
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop(None)


async def test_the_whole_ready_set_comes_first_and_changes_follow() -> None:
    async with reporting() as (provider, phone):
        first = await provider.next()
        assert (first.cluster_id, list(first.ready), first.full) == ("kwok-cluster-0", ["m-1", "m-2"], True)
        phone.note("m-3", True)
        phone.note("m-1", False)
        phone.note("m-2", True)
        change = await provider.next()
        assert (list(change.ready), list(change.not_ready), change.full) == (["m-3"], ["m-1"], False)


async def test_the_whole_set_is_repeated_without_any_change() -> None:
    async with reporting(full_seconds=0.05) as (provider, _):
        frames = [await provider.next() for _ in range(3)]
        assert all(frame.full and list(frame.ready) == ["m-1", "m-2"] for frame in frames)


async def test_after_a_broken_stream_the_whole_set_is_told_again() -> None:
    async with reporting() as (provider, phone):
        await provider.next()
        provider.hang_up.set()
        phone.note("m-4", True)
        while True:
            frame = await provider.next()
            if frame.full:
                break
        assert list(frame.ready) == ["m-1", "m-2", "m-4"]

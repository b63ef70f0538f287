"""What a machine's Node looks like, how long it boots, and how the provider hears of it."""

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaletest.cluster.nodes.node_creator import boot_delay_seconds, node_of
from scaletest.cluster.nodes.phone_home import PhoneHomeStream
from scaletest.cluster.nodes.trims import Promise
from tests.phones import Listener, listening


def test_a_node_offers_what_its_upcoming_node_promised() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    spec = Promise({"cpu": 4, "memory": "8Gi"}, {"zone": "a"}, [taint])
    node = node_of("m-1", spec)
    assert node["metadata"] == {"name": "fake-m-1", "labels": {"zone": "a", "kubernetes.io/hostname": "fake-m-1"}}
    assert node["spec"]["taints"] == [taint]
    assert node["status"]["capacity"] == node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "1100"}


def test_a_promised_number_of_pods_is_kept() -> None:
    assert node_of("m-1", Promise({"pods": "7"}))["status"]["capacity"]["pods"] == "7"


def test_boot_delays_have_the_asked_median_and_p99_and_repeat_per_machine() -> None:
    delays = [boot_delay_seconds(f"machine-{index}", 0.5, 2.0) for index in range(4000)]
    quantiles = statistics.quantiles(delays, n=100)
    assert 0.47 < quantiles[49] < 0.53
    assert 1.7 < quantiles[98] < 2.3
    assert delays[7] == boot_delay_seconds("machine-7", 0.5, 2.0)


def test_no_boot_delay_can_be_asked_for() -> None:
    assert boot_delay_seconds("machine", 0, 0) == 0.0


@asynccontextmanager
async def reporting(full_seconds: float = 60) -> AsyncIterator[tuple[Listener, PhoneHomeStream]]:
    async with listening() as (provider, address):
        phone = PhoneHomeStream("kwok-cluster-0", address, None, full_seconds=full_seconds)
        phone.note("m-2", True)
        phone.note("m-1", True)
        task = asyncio.ensure_future(phone.run())
        try:
            yield provider, phone
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


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

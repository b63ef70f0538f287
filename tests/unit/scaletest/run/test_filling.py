"""`up` waits until the demand is whole and bound, tells how far it is, and says what is missing when it gives up."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.process import daemon
from scaletest.cluster.load.metrics import LoadMetrics
from scaletest.cluster.nodes.metrics import NodeCreatorMetrics as NodeCreatorMetrics
from scaletest.cluster.nodes.trims import KeptPod
from scaletest.cluster.ports import LOAD_DRIVER_PORT, NODE_CREATOR_PORT
from scaletest.run.fleet import filling
from scaletest.run.fleet.filling import Asked, Fill, await_fill, look_at_pods
from tests.loopback import own_addresses
from tests.unit.plans import smoke_plan

ASKED = Asked(clusters=2, pods_per_cluster=40)


def test_what_is_asked_for_stands_in_the_values() -> None:
    assert Asked.of(smoke_plan().values("run")) == ASKED


@pytest.mark.parametrize(
    ("fill", "missing"),
    [
        (Fill(), "0 of 80 Pods are asked for"),
        (Fill(whole=1, target=60, active=60, bound=60), "60 of 80 Pods are asked for"),
        (Fill(whole=2, target=80, active=79, bound=80), "79 of 80 Pods are asked for"),
        (Fill(whole=2, target=80, active=80, bound=79), "79 of 80 Pods are bound"),
        (Fill(whole=2, target=80, active=80, bound=80), ""),
    ],
)
def test_every_pod_has_to_be_asked_for_and_bound(fill: Fill, missing: str) -> None:
    assert fill.missing(ASKED) == missing


def test_a_draw_that_ends_below_its_target_is_whole_all_the_same() -> None:
    assert Fill(whole=2, target=78, active=78, bound=78).missing(ASKED) == ""


def test_what_an_open_loop_asks_for_on_top_need_not_be_bound() -> None:
    assert Fill(whole=2, target=160, active=160, bound=80).missing(ASKED) == ""


def test_requests_without_pods_are_never_bound() -> None:
    assert Fill(whole=2, target=80, active=80).missing(Asked(2, 40, has_pods=False)) == ""


class Story:
    """The fill, look after look; the last one stays."""

    def __init__(self, *fills: Fill) -> None:
        self._fills = list(fills)

    async def look(self) -> Fill:
        return self._fills.pop(0) if len(self._fills) > 1 else self._fills[0]


async def test_it_tells_how_far_the_demand_is_until_it_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "_SAY_SECONDS", 0.0)
    said: list[str] = []
    half, full = Fill(2, 80, 80, 40), Fill(2, 80, 80, 80)
    assert await await_fill(ASKED, Story(Fill(), Fill(), half, half, full).look, said.append, poll_seconds=0) == ""
    assert said == ["0 of 80 Pods are asked for", "40 of 80 Pods are bound", "80 Pods are bound"]


async def fill_minute_by_minute(monkeypatch: pytest.MonkeyPatch, fills: Iterable[Fill]) -> str:
    """What `await_fill` says if each look finds the loop's clock a minute later."""
    clock, rest = 0.0, iter(fills)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock)

    async def look() -> Fill:
        nonlocal clock
        clock += 60
        return next(rest)

    return await await_fill(ASKED, look, lambda _: None, poll_seconds=0)


async def test_a_demand_that_comes_no_closer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    flickering = cycle(Fill(2, 80, 80, bound) for bound in (70, 68, 69))
    missing = await fill_minute_by_minute(monkeypatch, flickering)
    assert missing == "70 of 80 Pods are bound, no more for 6m00s"


async def test_a_slow_fill_is_waited_for_as_long_as_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (Fill(2, 80, 80, bound) for bound in range(81) for _ in range(5))
    assert await fill_minute_by_minute(monkeypatch, slow) == ""


@pytest.fixture
def ips() -> Iterator[tuple[str, str]]:
    with own_addresses() as both:
        yield both


async def test_the_clusters_of_this_machine_are_asked_themselves_and_one_that_starts_counts_as_empty(
    ips: tuple[str, str],
) -> None:
    driver, creator = CollectorRegistry(), CollectorRegistry()
    load = LoadMetrics(driver)
    load.target.set(40)
    load.active.set(39)
    load.enter("steady")
    nodes = NodeCreatorMetrics(creator)
    nodes.count_pod(
        None, KeptPod(key="default/a", uid="a", node="n", running=True, leaving=False, lives=True, evicted=False)
    )
    servers: list[Any] = [
        await daemon.serve_metrics(f"{ips[0]}:{LOAD_DRIVER_PORT}", driver),
        await daemon.serve_metrics(f"{ips[0]}:{NODE_CREATOR_PORT}", creator),
    ]
    try:
        assert await look_at_pods(ips) == Fill(whole=1, target=40, active=39, bound=1)
    finally:
        await asyncio.gather(*(server.cleanup() for server in servers))

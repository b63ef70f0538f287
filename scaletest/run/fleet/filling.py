"""Waits until a fleet's demand is whole and its Pods are bound, and says how far it is."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from scaletest.cluster.control_plane.exposition import read_samples
from scaletest.cluster.ports import LOAD_DRIVER_PORT, NODE_CREATOR_PORT
from scaletest.errors import PrometheusUnreachable
from scaletest.judge.prometheus import Prometheus
from scaletest.model.counting import counted, noun
from scaletest.model.documents.durations import format_duration
from scaletest.model.names import PROMETHEUS_POD, PROMETHEUS_PORT
from scaletest.run.target.kube_api import KubeApi, component_of
from scaletest.run.target.target import Target

_TARGET = "scaletest_loadgen_cr_target"
_ACTIVE = "scaletest_loadgen_cr_active"
_STEADY = "scaletest_loadgen_steady_state"
_BOUND = "bigfleet_scaletest_node_creator_bound_pods"

_POLL_SECONDS = 2.0
_SAY_SECONDS = 10.0
_ASK_SECONDS = 5.0
_ASK_AT_ONCE = 16
# A fill may take as long as it wants, but not stand still for so long.
_STILL_SECONDS = 5 * 60.0


@dataclass(frozen=True)
class Asked:
    """What a fleet's Helm values ask for."""

    clusters: int
    pods_per_cluster: int
    # CapacityRequests without Pods are never bound.
    has_pods: bool = True

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Asked":
        load = values["loadProfile"]
        return cls(values["kwok"]["clusterCount"], load["target"], load.get("mode", "pod") == "pod")

    @property
    def pods(self) -> int:
        return self.clusters * self.pods_per_cluster


@dataclass(frozen=True)
class Fill:
    """How far the demand is, over all clusters that answer."""

    # Clusters whose load-driver has asked for everything.
    whole: float = 0
    # Replicas asked for, CapacityRequests alive, Pods with a node.
    target: float = 0
    active: float = 0
    bound: float = 0

    @property
    def progress(self) -> float:
        return self.whole + self.active + self.bound

    def missing(self, asked: Asked) -> str:
        """What is not there yet, in words; empty when all is. What an open loop asks for on top need not be bound."""
        # A draw of gangs alone may end below its target.
        wanted = min(asked.pods, self.target) if self.whole == asked.clusters else asked.pods
        if self.whole < asked.clusters or self.active < wanted:
            return f"{self.active:,.0f} of {wanted:,.0f} Pods are asked for"
        if asked.has_pods and self.bound < wanted:
            return f"{self.bound:,.0f} of {wanted:,.0f} Pods are bound"
        return ""


Look = Callable[[], Awaitable[Fill]]
Say = Callable[[str], object]


async def await_fill(asked: Asked, look: Look, say: Say, poll_seconds: float = _POLL_SECONDS) -> str:
    """Empty once the demand is whole and bound; what is missing once it has not come closer for five minutes."""
    loop = asyncio.get_running_loop()
    best, moved_at = -1.0, loop.time()
    said, said_at = "", -_SAY_SECONDS
    while missing := (fill := await look()).missing(asked):
        now = loop.time()
        # Pods that lose their machine and get another come no closer.
        if fill.progress > best:
            best, moved_at = fill.progress, now
        if now - moved_at > _STILL_SECONDS:
            return f"{missing}, no more for {format_duration(now - moved_at)}"
        if missing != said and now - said_at >= _SAY_SECONDS:
            say(missing)
            said, said_at = missing, now
        await asyncio.sleep(poll_seconds)
    are = noun(asked.pods, "is", "are")
    say(f"{counted(asked.pods, 'Pod')} {are} {'bound' if asked.has_pods else 'asked for'}")
    return ""


async def look_from(place: Target, api: KubeApi, values: dict[str, Any]) -> Look | None:
    """A way to see the fill from here: the pods of this machine themselves, elsewhere the run's Prometheus.

    None where there is no such way.
    """
    if place.kind == "embedded":
        ips = [str(pod.status.pod_ip) for pod in await api.pods() if component_of(pod) == "kwok-cluster"]
        return partial(look_at_pods, ips) if ips else None
    if not values.get("prometheus", {}).get("enabled", True):
        return None
    address = await place.address(api, PROMETHEUS_POD, PROMETHEUS_PORT)
    return partial(_look_at_prometheus, Prometheus(f"https://{address}", place.private_dir, way_may_break=True))


async def look_at_pods(ips: Sequence[str]) -> Fill:
    """Ask every cluster's load-driver and node-creator."""
    turns = asyncio.Semaphore(_ASK_AT_ONCE)
    async with httpx.AsyncClient(trust_env=False, timeout=_ASK_SECONDS) as http:

        async def ask(ip: str, port: int, *names: str) -> list[float]:
            async with turns:
                try:
                    answer = await http.get(f"http://{ip}:{port}/metrics")
                except httpx.HTTPError:  # it has not started yet
                    return [0.0] * len(names)
            found = {sample.name: sample.value for sample in read_samples(answer.text, *names)}
            return [found.get(name, 0.0) for name in names]

        drivers, creators = await asyncio.gather(
            asyncio.gather(*(ask(ip, LOAD_DRIVER_PORT, _STEADY, _TARGET, _ACTIVE) for ip in ips)),
            asyncio.gather(*(ask(ip, NODE_CREATOR_PORT, _BOUND) for ip in ips)),
        )
    whole, target, active = (sum(column) for column in zip(*drivers, strict=True))
    return Fill(whole, target, active, sum(bound for [bound] in creators))


async def _look_at_prometheus(prometheus: Prometheus) -> Fill:
    try:
        found = await asyncio.gather(
            *(prometheus.value(f"sum({name})") for name in (_STEADY, _TARGET, _ACTIVE, _BOUND))
        )
    except PrometheusUnreachable:
        return Fill()
    return Fill(*(value or 0.0 for value in found))

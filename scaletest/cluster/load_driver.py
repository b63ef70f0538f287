"""The demand of one cluster: creates what was drawn for it, binds the first fill, then lets Pods come and go."""

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from bigfleet import daemon
from bigfleet.kube import Informer, KubeClient, KubeConfig, Object
from bigfleet.kube.resources import CAPACITY_REQUESTS, NODES, PODS
from scaletest.cluster.bind_latency import BindLatency, created_at
from scaletest.cluster.churn import Churn
from scaletest.cluster.demand import Demand
from scaletest.cluster.demand_without_pods import DemandWithoutPods
from scaletest.cluster.load_metrics import LoadMetrics
from scaletest.cluster.manifests import NAMESPACE, WORKLOAD_LABEL
from scaletest.cluster.mounted import read_mounted
from scaletest.cluster.podclass import pods_of
from scaletest.cluster.prebind import bind_all, plan_anchors, pre_bind, trim_node
from scaletest.cluster.pressure import HostPressure
from scaletest.cluster.run_watch import RunWatch
from scaletest.model.draw import Workload, draw_demand, ordinal_of
from scaletest.model.fleet import ARCHETYPE_LABEL
from scaletest.model.happenings import happenings, surplus
from scaletest.model.loadprofile import LoadProfile

# Share of the demanded Pods whose CapacityRequests must exist before the operator may start.
READY_SHARE = 0.999
_QPS, _BURST = 200, 400
_ANCHOR_SECONDS = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LoadDriverOptions:
    """Which cluster's demand, and where."""

    cluster_id: str
    kubeconfig: Path
    metrics_addr: str
    # The load profile, YAML.
    profile: Path
    # Written when the demand exists as CapacityRequests.
    demand_ready_file: Path
    # Written when our share of the first fill is bound; kube-scheduler may wait for it.
    fill_bound_file: Path
    # The pod's ServiceAccount, to watch the run's phase with; None: no run to watch, so no churn and no steady figures.
    service_account_dir: Path | None = None


async def serve(options: LoadDriverOptions) -> None:
    """Build the demand, then drive it until cancelled."""
    profile = read_mounted(options.profile, LoadProfile)
    registry = CollectorRegistry()
    registry.register(HostPressure())
    config = KubeConfig.from_file(options.kubeconfig)
    async with KubeClient(config, qps=_QPS, burst=_BURST, user_agent="load-driver") as client:
        driver = LoadDriver(client, profile, options, registry)
        metrics = await daemon.serve_metrics(options.metrics_addr, registry, ready=lambda: driver.synced)
        try:
            await daemon.forever(driver.run(), daemon.watch_loop_lag(registry), *_watch(options, driver.run_watch))
        finally:
            await metrics.cleanup()


def _watch(options: LoadDriverOptions, run_watch: RunWatch) -> list[Awaitable[None]]:
    if options.service_account_dir is None:
        return []
    config = KubeConfig.from_service_account(options.service_account_dir)

    async def watch() -> None:
        async with KubeClient(config, user_agent="load-driver") as host:
            await run_watch.run(host, os.environ["POD_NAMESPACE"])

    return [watch()]


class LoadDriver:
    """One cluster's demand, and what is known about it."""

    def __init__(
        self, client: KubeClient, profile: LoadProfile, options: LoadDriverOptions, registry: CollectorRegistry
    ) -> None:
        self._client = client
        self._profile = profile
        self._ordinal = ordinal_of(options.cluster_id)
        self._ready_file = options.demand_ready_file
        self._bound_file = options.fill_bound_file
        drawn = draw_demand(profile.archetypes, profile.target, profile.seed, self._ordinal)
        self._workloads = list(drawn.workloads())
        self._target = drawn.pods
        self._metrics = LoadMetrics(registry)
        without_pods = profile.mode == "cr"
        self._demand = (DemandWithoutPods if without_pods else Demand)(client, self._metrics)
        self._requests = Informer(
            client,
            CAPACITY_REQUESTS,
            on_change=self._note_requests,
            trim=_trim_request if without_pods else lambda _: {},
        )
        self._metrics.active.set_function(lambda: len(self._requests))
        bind_latency = BindLatency(registry)
        self._pods = Informer(
            client,
            PODS,
            namespace=NAMESPACE,
            labels=WORKLOAD_LABEL,
            on_change=bind_latency.on_change,
            trim=_trim_pod,
        )
        # What leaves and comes again in the soak.
        self._churned = self._requests if without_pods else self._pods
        self._churn = Churn(profile, self._ordinal, self._candidates, self._demand.replace_one)
        self._built = asyncio.Event()
        self._note_requests()
        self.run_watch = RunWatch(bind_latency.arm)

    @property
    def synced(self) -> bool:
        return self._requests.synced.is_set() and self._pods.synced.is_set()

    async def run(self) -> None:
        await daemon.forever(self._requests.run(), self._pods.run(), self._drive())

    async def _drive(self) -> None:
        # Watching first: a Pod's wait begins at its first sight.
        await self._requests.synced.wait()
        await self._pods.synced.wait()
        async with asyncio.TaskGroup() as group:
            if self._profile.anchors:
                group.create_task(self._anchor())
            await self._fill()
            group.create_task(self._churn.run(self.run_watch.soaking))
            group.create_task(self._change())

    async def _fill(self) -> None:
        """Everything that is there before the soak. The operator starts when the requests exist, before any bind."""
        self._metrics.enter("ramp")
        log.info("building demand", objects=len(self._workloads), pods=self._target)
        for workload in self._workloads:
            await self._demand.create(workload)
        await self._built.wait()
        log.info("demand is built", capacity_requests=len(self._requests))
        self._ready_file.touch()
        if first := self._bound_by_us():
            async with self._nodes() as nodes:
                names = {workload.name for workload in first}
                await pre_bind(
                    {workload.name: pods_of(workload) for workload in first},
                    lambda: [pod for pod in self._pods if pod["workload"] in names and not pod["leaving"]],
                    nodes,
                    self._pre_bind,
                )
        self._bound_file.touch()
        for workload in surplus(self._profile, self._ordinal):
            await self._demand.create(workload)
        self._metrics.enter("steady")

    def _bound_by_us(self) -> list[Workload]:
        """The workloads that make up the pre-bound share of the fill: whole ones, in the order of the draw."""
        share = self._profile.pre_bind_fraction * self._target
        ends = accumulate(workload.replicas for workload in self._workloads)
        return self._workloads[: sum(1 for _ in takewhile(lambda end: end <= share, ends))]

    async def _pre_bind(self, pod: str, node: str) -> bool:
        done = await self._demand.bind(pod, node)
        self._metrics.pre_bound.inc(done)
        return done

    async def _anchor(self) -> None:
        """Bind one Pod of every gang that has none, again and again, so that kube-scheduler can place the others."""
        classes = {workload.name: pods_of(workload) for workload in self._workloads if workload.archetype.gang}
        async with self._nodes() as nodes:
            while True:
                pods = [pod for pod in self._pods if pod["workload"] in classes and not pod["leaving"]]
                done = await bind_all(plan_anchors(classes, pods, nodes), nodes, self._demand.bind)
                self._metrics.anchors.inc(len(done))
                await asyncio.sleep(_ANCHOR_SECONDS)

    @asynccontextmanager
    async def _nodes(self) -> AsyncIterator[Informer]:
        nodes = Informer(self._client, NODES, trim=trim_node)
        watching = asyncio.create_task(nodes.run())
        try:
            await nodes.synced.wait()
            yield nodes
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _change(self) -> None:
        """Bursts, sheds and steps, each at its offset from soak start."""
        for happening in happenings(self._profile, self._ordinal):
            await self.run_watch.soaking.wait()
            await asyncio.sleep(max(0.0, self.run_watch.soak_start + happening.at_seconds - time.time()))
            if not self.run_watch.soaking.is_set():
                return  # the soak was shorter
            late = time.time() - self.run_watch.soak_start - happening.at_seconds
            log.info(happening.what, at_seconds=happening.at_seconds, late_seconds=round(late, 1))
            for workload in happening.deleted:
                await self._demand.delete(workload)
            for workload in happening.created:
                await self._demand.create(workload, steady=True)
            self._metrics.happened.inc()

    def _note_requests(self, *_: Object | None) -> None:
        if len(self._requests) >= math.ceil(self._target * READY_SHARE):
            self._built.set()

    def _candidates(self, archetype: str | None) -> Sequence[str]:
        return [
            pod["name"]
            for pod in self._churned
            if not pod["leaving"] and (archetype is None or pod["archetype"] == archetype)
        ]


def _trim_request(item: Object) -> Object:
    metadata = item["metadata"]
    archetype = (metadata.get("labels") or {}).get(ARCHETYPE_LABEL, "")
    return {"name": metadata["name"], "archetype": archetype, "leaving": False}


def _trim_pod(item: Object) -> Object:
    metadata = item["metadata"]
    return {
        "name": metadata["name"],
        "uid": metadata["uid"],
        "archetype": metadata["labels"].get(ARCHETYPE_LABEL, ""),
        "workload": metadata["labels"][WORKLOAD_LABEL],
        "created": created_at(item),
        "node": item["spec"].get("nodeName", ""),
        "leaving": "deletionTimestamp" in metadata,
    }

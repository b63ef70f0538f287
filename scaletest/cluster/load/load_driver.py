"""The demand of one cluster: creates what was drawn for it, binds the first fill, then lets Pods come and go."""

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from bigfleet.kube import KubeClient, KubeConfig, TrimmedInformer
from bigfleet.kube.resources import CAPACITY_REQUESTS, NODES, PODS
from bigfleet.process import daemon
from bigfleet.scheduling.pods import PodClass
from scaletest.cluster.load.bind_latency import BindLatency
from scaletest.cluster.load.churn import Churn
from scaletest.cluster.load.demand import WorkloadDemand
from scaletest.cluster.load.demand_without_pods import DemandWithoutPods
from scaletest.cluster.load.events import LoadEvents, Successors
from scaletest.cluster.load.identity_probe import IdentityProbe, ProbeTargets
from scaletest.cluster.load.metrics import LoadMetrics
from scaletest.cluster.load.needs_reader import NeedsReader
from scaletest.cluster.load.prebind import bind_all, in_play, plan_anchors, pre_bind
from scaletest.cluster.load.pressure import HostPressure
from scaletest.cluster.load.run_watch import RunWatch
from scaletest.cluster.load.trimming import (
    DrawnPodSubset,
    DrawnRequestSubset,
    OfferedNodeSubset,
    trim_node,
    trim_pod,
    trim_request,
    trim_request_without_pod,
)
from scaletest.cluster.mounted import read_mounted
from scaletest.cluster.witness.auditor import Witness
from scaletest.cluster.witness.blindness import TICK_SECONDS
from scaletest.cluster.witness.figures import Figures
from scaletest.cluster.witness.seen import SeenPod, SeenRequest
from scaletest.cluster.workloads.manifests import NAMESPACE, WORKLOAD_LABEL
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.model.demand.draw import Workload, ordinal_of
from scaletest.model.demand.happenings import BEFORE_THE_SOAK, Course, Happening
from scaletest.model.documents.loadprofile import LoadProfile

# Share of the demanded Pods whose CapacityRequests must exist before the operator may start.
READY_SHARE = 0.999
_QPS, _BURST = 200, 400
_ANCHOR_SECONDS = 5.0
# If the run's phase stays unknown for so long, the demand is built as before a soak.
_RUN_KNOWN_SECONDS = 30.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LoadDriverOptions:
    """Which cluster's demand, and where."""

    cluster_id: str
    """The KWOK cluster, as `kwok-cluster-0`."""
    kubeconfig: Path
    """Of that cluster's apiserver."""
    metrics_addr: str
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""
    profile: Path
    """The load profile, YAML."""
    demand_ready_file: Path
    """Written when the demand exists as CapacityRequests."""
    fill_bound_file: Path
    """Written when our share of the first fill is bound; kube-scheduler may wait for it."""
    service_account_dir: Path | None = None
    """The pod's ServiceAccount, to watch the run's phase with; None: no run to watch, so no churn and no steady
    figures."""
    tls_dir: Path | None = None
    """The cluster's certificate, and the servers that must refuse it for other identities; empty: that is not
    probed. What the shard holds of this cluster is read with it."""
    shard_addr: str = ""
    """`host:port` of the cluster's shard, whose needs are read; empty: they are not read."""
    provider_addr: str = ""
    """`host:port` of the provider, whose check of identities is probed; empty: it is not."""
    coordinator_addrs: str = ""
    """`host:port,…` of the coordinators, whose check of identities is probed; empty: it is not."""


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
        self._ready_file = options.demand_ready_file
        self._bound_file = options.fill_bound_file
        ordinal = ordinal_of(options.cluster_id)
        self._course = Course(profile, ordinal)
        # CapacityRequests that make the demand whole.
        self._requests_wanted = math.inf
        self._metrics = LoadMetrics(registry)
        without_pods = profile.mode == "cr"
        self._demand = (DemandWithoutPods if without_pods else WorkloadDemand)(client, self._metrics)
        self._events = LoadEvents(registry)
        self._successors = Successors(self._events, self._short_of)
        self._witness = Witness(self._course.all, without_pods=without_pods, on_arrival=self._successors.came)
        registry.register(Figures(self._witness, self._pods_due, lambda: self.synced))
        self._requests = TrimmedInformer(
            client,
            CAPACITY_REQUESTS,
            DrawnRequestSubset,
            trim_request_without_pod if without_pods else trim_request,
            on_change=self._on_request,
        )
        self._metrics.active.set_function(lambda: len(self._requests))
        self._bind_latency = BindLatency(registry)
        self._pods = TrimmedInformer(
            client, PODS, DrawnPodSubset, trim_pod, namespace=NAMESPACE, labels=WORKLOAD_LABEL, on_change=self._on_pod
        )
        self._nodes = TrimmedInformer(client, NODES, OfferedNodeSubset, trim_node, on_change=self._witness.on_node)
        # What leaves and comes again in the soak.
        self._churned: TrimmedInformer[SeenRequest] | TrimmedInformer[SeenPod] = (
            self._requests if without_pods else self._pods
        )
        self._churn = Churn(profile, ordinal, self._course.pods_due, self._candidates, self._let_leave)
        self._identity_probe = IdentityProbe(
            options.cluster_id,
            ProbeTargets(options.shard_addr, options.provider_addr, options.coordinator_addrs),
            options.tls_dir,
            registry,
        )
        self._needs_reader = NeedsReader(options.cluster_id, options.shard_addr, options.tls_dir, self._witness.held)
        self._built = asyncio.Event()
        # Two tasks that plan bindings concurrently would both count the same free room.
        self._binding = asyncio.Lock()
        self.run_watch = RunWatch(self._bind_latency.arm)
        if options.service_account_dir is None:
            self.run_watch.known.set()
        # Where the demand stands; stays where it was when the soak ends.
        self._reached_seconds = BEFORE_THE_SOAK

    @property
    def synced(self) -> bool:
        return all(informer.synced.is_set() for informer in (self._requests, self._pods, self._nodes))

    async def run(self) -> None:
        informers = (self._requests.run(), self._pods.run(), self._nodes.run())
        await daemon.forever(*informers, self._look_around(), self._drive())

    async def _look_around(self) -> None:
        while True:
            self._witness.tick()
            self._successors.look()
            await asyncio.sleep(TICK_SECONDS)

    async def _drive(self) -> None:
        # Watching first: a Pod's wait begins at its first sight.
        for informer in (self._requests, self._pods, self._nodes):
            await informer.synced.wait()
        await self._know_the_run()
        since = self.run_watch.soak_seconds
        if since < 0:
            # In the soak a former process has probed, and the load must not wait for a shard that is down on purpose.
            await self._identity_probe.run()
        async with asyncio.TaskGroup() as group:
            if self._profile.anchors:
                group.create_task(self._anchor())
            await self._fill(since)
            group.create_task(self._needs_reader.run())
            group.create_task(self._churn.run(self.run_watch))
            group.create_task(self._change(since))

    async def _know_the_run(self) -> None:
        """Wait for the run's phase: the soak may be on already, if this process or its whole pod was restarted."""
        try:
            async with asyncio.timeout(_RUN_KNOWN_SECONDS):
                await self.run_watch.known.wait()
        except TimeoutError:
            log.warning("the ConfigMap scaletest-run is missing; the demand is built as before a soak")

    async def _fill(self, since: float) -> None:
        """What is due `since` soak start, in seconds. The operator starts when the requests exist, before any bind."""
        self._metrics.enter("ramp")
        due = self._course.due(since)
        # What an open loop asks for on top comes when the fill is bound; in the soak it is due like all the rest.
        later = {workload.name: workload for workload in self._course.surplus} if since < 0 else {}
        first = [workload for name, workload in due.items() if name not in later]
        pods = sum(workload.replicas for workload in first)
        log.info("building demand", objects=len(first), pods=pods, soak_seconds=since)
        if since >= 0:
            # What was to be deleted while no load-driver ran.
            for name in self._course.all.keys() - due.keys():
                await self._demand.delete(self._course.all[name])
        fill = {workload.name for workload in self._course.fill}
        for workload in first:
            await self._demand.create(workload, steady=workload.name not in fill)
        self._requests_wanted = math.ceil(pods * READY_SHARE)
        self._note_requests()
        await self._built.wait()
        log.info("demand is built", capacity_requests=len(self._requests))
        self._ready_file.touch()
        # A fill that was bound once is kube-scheduler's from then on.
        if not self._bound_file.exists():
            await self._pre_bind(first)
        self._bound_file.touch()
        for workload in later.values():
            await self._demand.create(workload, steady=True)
        self._metrics.enter("steady")

    async def _pre_bind(self, fill: Sequence[Workload]) -> None:
        """Bind the pre-bound share of the fill: whole workloads, in the order of the draw."""
        share = self._profile.pre_bind_fraction * sum(workload.replicas for workload in fill)
        ends = accumulate(workload.replicas for workload in fill)
        ours = fill[: sum(1 for _ in takewhile(lambda end: end <= share, ends))]
        if not ours or self._profile.mode == "cr":
            return

        async def bind(pod: str, node: str) -> bool:
            done = await self._demand.bind(pod, node)
            self._metrics.pre_bound.inc(done)
            return done

        async with self._binding:
            replicas = {workload.name: workload.replicas for workload in ours}
            await pre_bind(self._classes, replicas, self._pods_in_play, self._nodes, bind)

    async def _anchor(self) -> None:
        """Bind one Pod of every gang that has none, again and again, so that kube-scheduler can place the others."""
        while True:
            async with self._binding:
                anchors = plan_anchors(self._classes, self._pods_in_play(), self._nodes)
                done = await bind_all(anchors, self._nodes, self._demand.bind)
            self._metrics.anchors.inc(len(done))
            await asyncio.sleep(_ANCHOR_SECONDS)

    @cached_property
    def _classes(self) -> dict[str, PodClass]:
        """What the Pods of every workload ask for: those of one that was deleted take room until they are gone."""
        return {name: pods_of(workload) for name, workload in self._course.all.items()}

    def _pods_in_play(self) -> list[SeenPod]:
        return in_play(self._pods, self._classes, self._demand.workloads)

    async def _change(self, since: float) -> None:
        """Bursts, sheds and steps, each at its offset from soak start; a burst that is over by then does not come."""
        watch = self.run_watch
        coming = deque(one for one in self._course.happenings if one.at_seconds > since)
        while coming:
            await watch.soaking.wait()
            at_seconds = coming[0].at_seconds
            await asyncio.sleep(max(0.0, watch.soak_start + at_seconds - time.time()))
            if not watch.soaking.is_set():
                return  # the soak was shorter
            now = max(at_seconds, watch.soak_seconds)
            happened: list[Happening] = []
            while coming and coming[0].at_seconds <= now:
                one = coming.popleft()
                log.info(one.what, at_seconds=one.at_seconds, late_seconds=round(now - one.at_seconds, 1))
                happened.append(one)
            await self._reach(self._course.due(now))
            self._metrics.happened.inc(len(happened))
            done = time.time() - watch.soak_start
            for one in happened:
                self._events.note("change", done - one.at_seconds)

    async def _reach(self, due: Mapping[str, Workload]) -> None:
        here = dict(self._demand.workloads)
        for name in here.keys() - due.keys():
            await self._demand.delete(here[name])
        for name, workload in due.items():
            if name not in here:
                await self._demand.create(workload, steady=True)

    def _on_request(self, old: SeenRequest | None, new: SeenRequest | None) -> None:
        self._witness.on_request(old, new)
        self._note_requests()

    def _note_requests(self) -> None:
        if len(self._requests) >= self._requests_wanted:
            self._built.set()

    def _on_pod(self, old: SeenPod | None, new: SeenPod | None) -> None:
        self._bind_latency.on_change(old, new)
        self._witness.on_pod(old, new)

    def _candidates(self, archetype: str | None) -> Sequence[str]:
        return [
            pod.name for pod in self._churned if not pod.leaving and (archetype is None or pod.archetype == archetype)
        ]

    async def _let_leave(self, name: str, due: float) -> None:
        """Delete what the churn chose; `due` is when, on the loop's clock."""
        chosen = self._churned.get(f"{NAMESPACE}/{name}")
        if chosen is None:
            return
        expected = self._successors.expect(chosen.workload)
        if await self._demand.delete_one(name):
            self._events.note("deletion", asyncio.get_running_loop().time() - due)
            self._successors.deleted(expected)
            await self._demand.bring_back(name)
        else:
            self._successors.not_deleted(expected)

    def _short_of(self, workload: str) -> int | None:
        """Pods that it lacks now; None for one that is not demanded any more."""
        wanted = self._demand.workloads.get(workload)
        return wanted.replicas - self._witness.living.of_workload[workload] if wanted else None

    def _pods_due(self) -> int:
        if self.run_watch.soaking.is_set():
            self._reached_seconds = self.run_watch.soak_seconds
        return self._course.all_pods_due(self._reached_seconds)

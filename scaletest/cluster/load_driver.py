"""The demand of one cluster: creates what was drawn for it, then lets Pods come and go while the soak is on."""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from bigfleet import daemon
from bigfleet.kube import AlreadyExists, Informer, KubeClient, KubeConfig, KubeError, NotFound, Object
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS
from scaletest.cluster.bind_latency import BindLatency, created_at
from scaletest.cluster.churn import Churn
from scaletest.cluster.manifests import ARCHETYPE_LABEL, NAMESPACE, WORKLOAD_LABEL, manifest_of, resource_of
from scaletest.cluster.mounted import read_mounted
from scaletest.cluster.run_watch import RunWatch
from scaletest.errors import UsageError
from scaletest.model.draw import Workload, draw_demand, ordinal_of
from scaletest.model.loadprofile import LoadProfile

# Share of the demanded Pods whose CapacityRequests must exist before the operator may start.
READY_SHARE = 0.999
_QPS, _BURST = 200, 400
_RETRY_SECONDS = 0.05
_ERRORS = ("create", "delete")

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
    # The pod's ServiceAccount, to watch the run's phase with; None: no run to watch, so no churn and no steady figures.
    service_account_dir: Path | None = None


async def serve(options: LoadDriverOptions) -> None:
    """Build the demand, then drive it until cancelled."""
    profile = read_load_profile(options.profile)
    registry = CollectorRegistry()
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


def read_load_profile(path: Path) -> LoadProfile:
    """The profile in `path`; refuses what this driver does not do, rather than leaving it out in silence."""
    profile = read_mounted(path, LoadProfile)
    asked = {
        "preBindFraction": profile.pre_bind_fraction > 0,
        "anchors": profile.anchors,
        "bursts": bool(profile.bursts),
        "scaleDowns": bool(profile.scale_downs),
        "demandSteps": bool(profile.demand_steps),
        "openLoopDemandMultiplier": profile.open_loop_demand_multiplier > 1,
    }
    for field, is_asked in asked.items():
        if is_asked:
            raise UsageError(f"{path}: {field}: this load-driver does not do that yet")
    return profile


class LoadDriver:
    """One cluster's demand, and what is known about it."""

    def __init__(
        self, client: KubeClient, profile: LoadProfile, options: LoadDriverOptions, registry: CollectorRegistry
    ) -> None:
        self._client = client
        self._ready_file = options.demand_ready_file
        drawn = draw_demand(profile.archetypes, profile.target, profile.seed, ordinal_of(options.cluster_id))
        self._workloads = list(drawn.workloads())
        self._target = drawn.pods
        self._requests = Informer(client, CAPACITY_REQUESTS, on_change=self._note_requests, trim=lambda _: {})
        bind_latency = BindLatency(registry)
        self._pods = Informer(
            client,
            PODS,
            namespace=NAMESPACE,
            labels=WORKLOAD_LABEL,
            on_change=bind_latency.on_change,
            trim=_trim_pod,
        )
        self._churn = Churn(profile, options.cluster_id, self._candidates, self._delete)
        self._built = asyncio.Event()
        self._note_requests()
        self._metrics = _Metrics(registry)
        self._metrics.target.set(self._target)
        self._metrics.active.set_function(lambda: len(self._requests))
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
        self._metrics.enter("ramp")
        log.info("building demand", objects=len(self._workloads), pods=self._target)
        for workload in self._workloads:
            await self._create(workload)
        await self._built.wait()
        self._ready_file.touch()
        self._metrics.enter("steady")
        log.info("demand is built", capacity_requests=len(self._requests))
        await self._churn.run(self.run_watch.soaking)

    def _note_requests(self, *_: Object | None) -> None:
        if len(self._requests) >= math.ceil(self._target * READY_SHARE):
            self._built.set()

    async def _create(self, workload: Workload) -> None:
        manifest, resource = manifest_of(workload), resource_of(workload)
        while True:
            try:
                await self._client.create(resource, manifest, NAMESPACE)
                self._metrics.created.inc()
                return
            except AlreadyExists:  # a former life of this process made it
                return
            except KubeError as error:
                self._metrics.errors.labels("create").inc()
                log.warning("create failed, trying again", name=workload.name, error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    def _candidates(self, archetype: str | None) -> Sequence[str]:
        return [
            pod["name"]
            for pod in self._pods
            if not pod["leaving"] and (archetype is None or pod["archetype"] == archetype)
        ]

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(PODS, name, NAMESPACE)
        except NotFound:
            return
        except KubeError as error:
            self._metrics.errors.labels("delete").inc()
            log.warning("delete failed", name=name, error=str(error))
            return
        self._metrics.deleted.inc()


def _trim_pod(item: Object) -> Object:
    metadata = item["metadata"]
    return {
        "name": metadata["name"],
        "uid": metadata["uid"],
        "archetype": metadata["labels"].get(ARCHETYPE_LABEL, ""),
        "created": created_at(item),
        "bound": bool(item["spec"].get("nodeName")),
        "leaving": "deletionTimestamp" in metadata,
    }


class _Metrics:
    """What load-driver counts, under upstream's names; every series exists from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"scaletest_loadgen_{name}", text, registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"scaletest_loadgen_{name}", text, registry=registry)

        self.created = counter("cr_created", "Deployments and StatefulSets created.")
        self.deleted = counter("cr_deleted", "Pods deleted by churn and age.")
        self.active = gauge("cr_active", "CapacityRequests alive in the cluster.")
        self.target = gauge("cr_target", "Pods demanded: the sum of all replicas.")
        self.errors = Counter("scaletest_loadgen_errors", "Requests that failed.", ["kind"], registry=registry)
        for kind in _ERRORS:
            self.errors.labels(kind)
        self.anchors = counter("anchors_bound", "Pods that this driver bound itself (ADR-0025).")
        self._steady = gauge("steady_state", "Whether the demand is built.")
        self._started = Gauge(
            "scaletest_loadgen_phase_started_at_seconds",
            "When a phase began, in Unix seconds; 0 before it.",
            ["phase"],
            registry=registry,
        )
        for phase in ("ramp", "steady"):
            self._started.labels(phase)

    def enter(self, phase: str) -> None:
        self._started.labels(phase).set(time.time())
        self._steady.set(phase == "steady")

"""The machines of a KWOK cluster: an UpcomingNode that boots becomes a Node, and a Node that is Ready phones home.

BigFleet announces a machine; whether it lives, and what it is like, is the provider's to say.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1.phonehome_pb2 import MachineWords
from bigfleet.kube import (
    AlreadyExists,
    KubeClient,
    KubeConfig,
    KubeError,
    NotFound,
    Object,
    TrimmedInformer,
    WorkQueue,
)
from bigfleet.kube.resources import NODES, PODS, UPCOMING_NODES
from bigfleet.process import daemon
from scaletest.cluster.nodes.drained_pods import CutOff, leaves
from scaletest.cluster.nodes.lost_pods import LostPods
from scaletest.cluster.nodes.metrics import NodeCreatorMetrics
from scaletest.cluster.nodes.phone_home import PhoneHomeStream
from scaletest.cluster.nodes.pods_by_node import PodsByNode
from scaletest.cluster.nodes.trims import (
    BINDING_ANNOTATION,
    KeptNode,
    KeptPod,
    KeptUpcoming,
    MachineNodeSubset,
    PlacedPodSubset,
    Promise,
    UpcomingNodeSubset,
    trim_node,
    trim_pod,
    trim_upcoming,
)
from scaletest.cluster.nodes.vouched import Vouched, VouchedMachine
from scaletest.cluster.witness.ages import Ages

UPCOMING_PREFIX = "un-"
NODE_PREFIX = "fake-"
# How the provider calls the host of a machine.
HOST_PREFIX = "host-"
# Of a machine that does not say; density is the profile's to limit, not the kubelet's.
DEFAULT_PODS = "1100"

# Phases of a machine that has booted, and those in which one that exists is let be.
_BOOTS = frozenset({"Registered", "Ready"})
_LIVES = _BOOTS | {"Draining"}
# Phases of a machine that the provider has not given to the cluster yet.
_ON_ITS_WAY = frozenset({None, "Provisioning", "Launched"})
# How often Nodes that have gone are looked back on.
_LOOK_SECONDS = 1.0
_P99_SIGMAS = 2.3263

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class NodeCreatorOptions:
    """How to play the machines of one cluster."""

    cluster_id: str
    """The KWOK cluster, as `kwok-cluster-0`."""
    kubeconfig: Path
    """Of that cluster's apiserver."""
    metrics_addr: str
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""
    provider_addr: str = ""
    """The provider: is told of Ready nodes, and says which machines exist; empty: all that are announced exist."""
    tls_dir: Path | None = None
    """The pod's own certificate."""
    boot_delay_median_seconds: float = 0.5
    """From the first sight of a booting UpcomingNode until its Node exists; lognormal, fixed per machine."""
    boot_delay_p99_seconds: float = 2.0
    """99 of 100 machines boot faster."""
    lost_pods_after_seconds: float = 30.0
    """From a Node's end until its Pods are ended: longer than a replacement takes, and shorter than the 40 s of
    kube-controller-manager."""
    qps: float = 200
    """Requests per second to the cluster's apiserver, on average."""
    burst: int = 400
    """Requests that may go out at once after a pause."""
    concurrency: int = 32
    """Nodes that are written at the same time."""


async def serve(options: NodeCreatorOptions) -> None:
    """Keep Nodes in step with UpcomingNodes until cancelled."""
    registry = CollectorRegistry()
    config = KubeConfig.from_file(options.kubeconfig)
    async with KubeClient(config, qps=options.qps, burst=options.burst, user_agent="node-creator") as client:
        creator = NodeCreator(client, options, registry)
        metrics = await daemon.serve_metrics(options.metrics_addr, registry, ready=lambda: creator.synced)
        try:
            await daemon.forever(creator.run(), daemon.watch_loop_lag(registry))
        finally:
            await metrics.cleanup()


def boot_delay_seconds(machine_id: str, median: float, p99: float) -> float:
    """How long this machine takes to boot: always the same for the same machine."""
    if median <= 0:
        return 0.0
    sigma = math.log(max(p99, median) / median) / _P99_SIGMAS
    return random.Random(f"boot/{machine_id}").lognormvariate(math.log(median), sigma)


def node_of(machine_id: str, promise: Promise, machine: VouchedMachine | None = None) -> Object:
    """The Node that a machine registers, with room for Pods: what the provider says that it is.

    Without a provider, it is what its UpcomingNode promised.
    """
    name = NODE_PREFIX + machine_id
    resources: Mapping[str, int | str] = promise.resources
    labels: Mapping[str, str] = promise.labels
    metadata: Object = {"name": name}
    if machine:
        resources, labels = machine.allocatable, machine.labels
        metadata["annotations"] = {BINDING_ANNOTATION: machine.binding}
    # A Node without `pods` reads as room for none, and nothing fits.
    capacity = {"pods": DEFAULT_PODS} | {key: str(value) for key, value in resources.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata | {"labels": {**labels, "kubernetes.io/hostname": name}},
        "spec": {"taints": promise.taints} if promise.taints else {},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


class NodeCreator:
    """Level-triggered: a Node exists exactly while its machine has booted.

    A machine boots when both have named it: BigFleet by an UpcomingNode, the provider by its word. It is gone as soon
    as either takes it back.
    """

    def __init__(
        self,
        client: KubeClient,
        options: NodeCreatorOptions,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._options = options
        self._metrics = NodeCreatorMetrics(registry)
        self._upcoming = TrimmedInformer(
            client, UPCOMING_NODES, UpcomingNodeSubset, trim_upcoming, on_change=self._on_upcoming
        )
        self._nodes = TrimmedInformer(client, NODES, MachineNodeSubset, trim_node, on_change=self._on_node)
        self._pods = TrimmedInformer(client, PODS, PlacedPodSubset, trim_pod, on_change=self._on_pod)
        # Of Pods that are on Nodes, and of Nodes that have gone.
        self._clock = clock
        self._pods_by_node = PodsByNode(clock)
        self._lost_pods = LostPods(client, self._nodes, self._pods_by_node, options.lost_pods_after_seconds)
        self._cut_off = CutOff(self._pods_by_node)
        self._queue = WorkQueue("nodes", self._reconcile, concurrency=options.concurrency)
        # When each machine was first seen booting, on the loop's clock.
        self._booting_since: dict[str, float] = {}
        # There is, or was, an UpcomingNode.
        self._announced = asyncio.Event()
        self._vouched = Vouched() if options.provider_addr else None
        # Machines that BigFleet announces and that the provider never gave, those that it has taken back, and those of
        # which there is any record although they are not there.
        self._strangers, self._outlived, self._kept = Ages(), Ages(), Ages()
        # Announced machines whose Node has been Ready.
        self._joined: set[str] = set()
        # The promise that was counted as wrong last, of each machine: a status that changes is no new promise.
        self._mismatched: dict[str, Promise] = {}
        self._metrics.watch(self._strangers, self._outlived, self._kept)
        self._phone = (
            PhoneHomeStream(
                options.cluster_id,
                options.provider_addr,
                options.tls_dir,
                on_connected=self._metrics.phone.set,
                on_words=self._hear,
            )
            if options.provider_addr
            else None
        )

    @property
    def synced(self) -> bool:
        return all(informer.synced.is_set() for informer in (self._upcoming, self._nodes, self._pods))

    async def run(self) -> None:
        informers = (self._upcoming.run(), self._nodes.run(), self._pods.run())
        await daemon.forever(*informers, self._work(), *([self._phone_home(self._phone)] if self._phone else []))

    async def _phone_home(self, phone: PhoneHomeStream) -> None:
        # Before the Nodes are known, the whole set would seem to be empty, and every machine to be lost.
        await self._nodes.synced.wait()
        # The provider gives the machines that a cluster began with their time from its first word on. A large demand
        # is asked for over many minutes before the operator has its first session and announces them.
        await self._announced.wait()
        await phone.run()

    async def _work(self) -> None:
        # Before both are known, a Node without UpcomingNode would seem to be one too many.
        await self._upcoming.synced.wait()
        await self._nodes.synced.wait()
        await daemon.forever(self._queue.run(), self._lost_pods.run(), self._look_back())

    def _on_upcoming(self, old: KeptUpcoming | None, new: KeptUpcoming | None) -> None:
        name = _name(new or old)
        if not name.startswith(UPCOMING_PREFIX):
            return
        machine_id = name.removeprefix(UPCOMING_PREFIX)
        self._announced.set()
        self._queue.add(machine_id)
        if new and new.phase == "Drained":
            self._cut_off.drained(NODE_PREFIX + machine_id)
        if new and new.node not in ("", NODE_PREFIX + machine_id) and (old is None or old.node != new.node):
            self._metrics.misnamed.inc()
            log.warning("an UpcomingNode refers to another Node", machine=machine_id, node=new.node)
        if new and (lacks := _lacks(machine_id, new)) and (old is None or _lacks(machine_id, old) != lacks):
            self._metrics.incomplete.labels(lacks).inc()
            log.warning("an UpcomingNode does not say what it should", machine=machine_id, field=lacks)
        if new is None:
            self._joined.discard(machine_id)
        elif new.phase == "Ready" and (old is None or old.phase != "Ready") and self.synced:
            self._is_ready(machine_id)

    def _is_ready(self, machine_id: str) -> None:
        """An UpcomingNode is Ready, which BigFleet can know only from this process, by way of the provider."""
        if machine_id not in self._joined and self._vouched and self._vouched.heard:
            self._metrics.early.inc()
            log.warning("an UpcomingNode is Ready before its Node", machine=machine_id)

    def _on_node(self, old: KeptNode | None, new: KeptNode | None) -> None:
        name = _name(new or old)
        if not name.startswith(NODE_PREFIX):
            return
        machine_id = name.removeprefix(NODE_PREFIX)
        ready = new is not None and new.ready
        self._metrics.ready_nodes.inc(ready - (old is not None and old.ready))
        if ready:
            self._joined.add(machine_id)
        if self._phone:
            self._phone.note(machine_id, ready, there=new is not None and not new.leaving)
        if old is None:
            self._cut_off.came(name)
        if new is None:
            self._cut_off.went(name, self._clock(), cordoned=old is not None and old.cordoned)
        if old is None or new is None:
            self._queue.add(machine_id)

    def _on_pod(self, old: KeptPod | None, new: KeptPod | None) -> None:
        self._metrics.count_pod(old, new)
        self._pods_by_node.note(old, new)
        how = leaves(old, new)
        node = self._nodes.get(old.node) if old and how else None
        if how and node and node.cordoned:
            self._metrics.left.labels(how).inc()

    async def _look_back(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for drained in self._cut_off.judged(self._clock()):
                self._metrics.drained.inc()
                if drained.cut_off:
                    self._metrics.cut_off.inc(drained.cut_off)
                    log.warning("a drain has cut Pods off", node=drained.node, pods=drained.cut_off)
                if not drained.cordoned:
                    self._metrics.uncordoned.inc()
                    log.warning("a Node was drained and never cordoned", node=drained.node)

    def _hear(self, words: MachineWords) -> None:
        if self._vouched is None:
            return
        for word in words.machines:
            if word.gone:
                (self._cut_off.drained if word.drained else self._cut_off.lost)(NODE_PREFIX + word.machine_id)
        for machine_id in self._vouched.hear(words):
            self._queue.add(machine_id)
        if words.full:
            # Nodes of a former process may have no machine any more; announced machines may not be the provider's.
            for node in self._nodes:
                if node.name.startswith(NODE_PREFIX):
                    self._queue.add(node.name.removeprefix(NODE_PREFIX))
            for upcoming in self._upcoming:
                self._queue.add(upcoming.name.removeprefix(UPCOMING_PREFIX))

    async def _reconcile(self, machine_id: str) -> None:
        upcoming = self._upcoming.get(UPCOMING_PREFIX + machine_id)
        node = self._nodes.get(NODE_PREFIX + machine_id)
        phase = upcoming.phase if upcoming else None
        disowned = False
        if self._vouched:
            self._compare(self._vouched, machine_id, upcoming)
            disowned = node is not None and self._vouched.disowns(machine_id, node.binding)
        if upcoming is None or phase not in _LIVES or disowned:
            self._booting_since.pop(machine_id, None)
            if node is not None:
                await self._delete(machine_id)
            elif upcoming is not None:
                self._metrics.outcomes.labels("not_ready").inc()
        elif node is not None:
            self._metrics.outcomes.labels("exists").inc()
        elif phase in _BOOTS and (self._vouched is None or self._vouched.get(machine_id)):
            await self._boot(machine_id, upcoming)

    def _compare(self, vouched: Vouched, machine_id: str, upcoming: KeptUpcoming | None) -> None:
        """Hold what BigFleet announces against the provider's word."""
        boots = upcoming is not None and upcoming.phase in _BOOTS
        if boots and vouched.never_gave(machine_id):
            self._strangers.begin(machine_id, time.monotonic())
        else:
            self._strangers.end(machine_id)
        if boots and vouched.took_back(machine_id):
            self._outlived.begin(machine_id, time.monotonic())
        else:
            self._outlived.end(machine_id)
        machine = vouched.get(machine_id)
        announced = upcoming is not None and upcoming.phase not in _ON_ITS_WAY
        if announced and vouched.heard and machine is None:
            self._kept.begin(machine_id, time.monotonic())
        else:
            self._kept.end(machine_id)
        if upcoming is None:
            vouched.forget(machine_id)
            self._mismatched.pop(machine_id, None)
        elif boots and machine and self._mismatched.get(machine_id) != upcoming.spec:
            self._mismatched.pop(machine_id, None)
            if machine.contradicts(upcoming.spec):
                self._mismatched[machine_id] = upcoming.spec
                self._metrics.mismatches.inc()
                log.warning("an UpcomingNode says otherwise than the provider", machine=machine_id)

    async def _boot(self, machine_id: str, upcoming: KeptUpcoming) -> None:
        machine = self._vouched.get(machine_id) if self._vouched else None
        now = asyncio.get_running_loop().time()
        since = self._booting_since.setdefault(machine_id, now)
        delay = boot_delay_seconds(
            machine_id, self._options.boot_delay_median_seconds, self._options.boot_delay_p99_seconds
        )
        if now < since + delay:
            self._queue.add_after(machine_id, since + delay - now)
            return
        try:
            await self._client.create(NODES, node_of(machine_id, upcoming.spec, machine))
        except AlreadyExists:
            self._booting_since.pop(machine_id, None)
            self._metrics.outcomes.labels("exists").inc()
            return
        except KubeError:
            self._metrics.outcomes.labels("create_error").inc()
            raise
        self._booting_since.pop(machine_id, None)
        self._metrics.outcomes.labels("created").inc()
        self._metrics.created.inc()
        self._metrics.latency.observe(asyncio.get_running_loop().time() - since)

    async def _delete(self, machine_id: str) -> None:
        try:
            await self._client.delete(NODES, NODE_PREFIX + machine_id)
        except NotFound:
            return
        except KubeError:
            self._metrics.outcomes.labels("cleanup_error").inc()
            raise
        self._metrics.outcomes.labels("cleanup_deleted").inc()


def _lacks(machine_id: str, upcoming: KeptUpcoming) -> str:
    """The field that tells people where a machine is, or why it failed, if that is wrong; else nothing."""
    if upcoming.phase in _BOOTS and upcoming.provider_id != HOST_PREFIX + machine_id:
        return "providerID"
    return "lastError" if upcoming.phase == "Failed" and not upcoming.last_error else ""


def _name(item: KeptUpcoming | KeptNode | None) -> str:
    return item.name if item else ""

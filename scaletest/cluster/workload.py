"""The supervisor of container `workload`: demand first, then the operator that tells BigFleet about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
import structlog

from bigfleet import operator, podcontroller
from bigfleet.operator import OperatorOptions
from bigfleet.podcontroller import PodControllerOptions
from bigfleet.security.renewal import Renewal
from scaletest.cluster.deaths import BigFleetDied, HarnessDied
from scaletest.cluster.load import load_driver
from scaletest.cluster.load.load_driver import LoadDriverOptions
from scaletest.cluster.markers import DEMAND_MARKER, FILL_MARKER, READY_MARKER
from scaletest.cluster.nodes import node_creator
from scaletest.cluster.nodes.node_creator import NodeCreatorOptions
from scaletest.cluster.ports import (
    HEALTH_PORT,
    LOAD_DRIVER_PORT,
    NODE_CREATOR_PORT,
    OPERATOR_PORT,
    POD_CONTROLLER_PORT,
)
from scaletest.model.demand.draw import ordinal_of
from scaletest.supervise.children import ChildDied, Children, NotInTime
from scaletest.supervise.forks import Fork, fork_all
from scaletest.supervise.health import SupervisorHealth
from scaletest.supervise.spares import Understudies

NODE_CREATOR = "node-creator"
POD_CONTROLLER = "pod-controller"
LOAD_DRIVER = "load-driver"
OPERATOR = "operator"

_PORTS = {
    NODE_CREATOR: NODE_CREATOR_PORT,
    POD_CONTROLLER: POD_CONTROLLER_PORT,
    LOAD_DRIVER: LOAD_DRIVER_PORT,
    OPERATOR: OPERATOR_PORT,
}

# What the harness plays itself may die this often in a container's life, and BigFleet's processes live on.
_SPARES = {NODE_CREATOR: 2, LOAD_DRIVER: 2}

_APISERVER_SECONDS = 120
_CACHES_SECONDS = 300
_DEMAND_SECONDS = 30 * 60
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=5)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WorkloadOptions:
    """What the processes of one cluster are told."""

    cluster_id: str
    """The KWOK cluster, as `kwok-cluster-0`."""
    pod_ip: str
    """Where all processes listen."""
    shared_dir: Path
    """admin.kubeconfig and the markers; shared with container `apiserver`."""
    shard_addrs: str
    """All shards, as `host:port,host:port,…`; cluster N belongs to shard N modulo their number."""
    provider_addr: str
    """`host:port` of the provider."""
    load_profile: Path
    """The YAML that the chart mounts."""
    coordinator_addrs: str = ""
    """All coordinators, as `host:port,…`: clusters have no business with them, and it is tried whether they know."""
    tls_dir: Path | None = None
    """The pod's own certificate."""
    plaintext: bool = False
    """Without any TLS; only for trying things out."""
    renewal: Renewal = field(default_factory=Renewal)
    """The operator renews the pod's certificate."""
    service_account_dir: Path | None = None
    """The pod's ServiceAccount, for the run's phase; None when there is no run to watch."""
    operator_qps: float = OperatorOptions.qps
    """Requests per second of the operator to the cluster's apiserver, on average."""
    operator_burst: int = OperatorOptions.burst
    """Requests that the operator may send at once after a pause."""
    operator_ack_concurrency: int = OperatorOptions.ack_concurrency
    """CapacityRequests that the operator acknowledges at the same time."""
    operator_rollup_interval_seconds: float = OperatorOptions.rollup_interval_seconds
    """The longest time between two roll-ups of the operator."""
    operator_bootstrap_template_file: Path | None = None
    """What a bare machine is told; None: a comment."""
    pod_controller_qps: float = PodControllerOptions.qps
    """Requests per second of the pod-controller to the cluster's apiserver, on average."""
    pod_controller_burst: int = PodControllerOptions.burst
    """Requests that the pod-controller may send at once after a pause."""
    pod_controller_priority_class_defaults: Path | None = None
    """YAML: PriorityClass name → {interruptionPenalty, reclamationPenalty}, for Pods without annotations."""
    boot_delay_median_seconds: float = 0.5
    """Half of the machines boot faster; 0: all at once."""
    boot_delay_p99_seconds: float = 2.0
    """99 of 100 machines boot faster."""


def fork_processes(options: WorkloadOptions) -> dict[str, Fork]:
    """The four processes and their spares, each waiting for its turn. Call it before there is an event loop."""
    return fork_all(
        {
            NODE_CREATOR: partial(node_creator.serve, node_creator_options(options)),
            POD_CONTROLLER: partial(podcontroller.serve, pod_controller_options(options)),
            LOAD_DRIVER: partial(load_driver.serve, load_driver_options(options)),
            OPERATOR: partial(operator.serve, operator_options(options)),
        },
        _SPARES,
    )


async def serve(
    options: WorkloadOptions, processes: Mapping[str, Fork], demand_seconds: float = _DEMAND_SECONDS
) -> None:
    """Let everything run until cancelled. Ends with BigFleetDied when a process of BigFleet's dies, and with
    HarnessDied when one of ours does that has no spare left.

    The operator waits `demand_seconds` for the demand, and starts without the whole of it after that.
    """
    try:
        await _supervise(options, processes, demand_seconds)
    except ChildDied as death:
        kind = HarnessDied if death.name in _SPARES else BigFleetDied
        raise kind(death.name, death.status, death.tail) from None


async def _supervise(options: WorkloadOptions, processes: Mapping[str, Fork], demand_seconds: float) -> None:
    demand_ready = options.shared_dir / DEMAND_MARKER
    # Left by an earlier start of this container: the new load-driver vouches for the demand itself.
    demand_ready.unlink(missing_ok=True)
    async with aiohttp.ClientSession(timeout=_PROBE_TIMEOUT) as http:
        health = SupervisorHealth(http)
        cast = Understudies(processes, lambda name: health.started(name, _address(options, _PORTS[name])))
        async with Children(survive=cast.survive) as children:
            await cast.join(children)
            probed = await health.serve(_address(options, HEALTH_PORT))
            try:
                api_ready = partial(_exists, options.shared_dir / READY_MARKER)
                await children.until(api_ready, "container apiserver ready", _APISERVER_SECONDS)
                cast.start(NODE_CREATOR)
                cast.start(POD_CONTROLLER)
                # The load-driver would outrun caches that are not filled yet.
                for name in (NODE_CREATOR, POD_CONTROLLER):
                    url = f"http://{_address(options, _PORTS[name])}/readyz"
                    await children.until(partial(_answers, http, url), f"{name} ready", _CACHES_SECONDS)
                # Ready is never filled: the operator starts only when the demand is built.
                health.ready = True
                cast.start(LOAD_DRIVER)
                # The first roll-up must carry the whole demand, or the seeded machines are taken for surplus
                # (BF-0036).
                try:
                    await children.until(partial(_exists, demand_ready), "demand built", demand_seconds)
                except NotInTime as late:
                    log.warning("the operator starts without the whole demand", reason=late.message)
                cast.start(OPERATOR)
                log.info("all processes run", cluster=options.cluster_id)
                await children.until_death()
            finally:
                await probed.cleanup()


def node_creator_options(options: WorkloadOptions) -> NodeCreatorOptions:
    return NodeCreatorOptions(
        cluster_id=options.cluster_id,
        kubeconfig=_kubeconfig(options),
        metrics_addr=_address(options, NODE_CREATOR_PORT),
        provider_addr=options.provider_addr,
        tls_dir=options.tls_dir,
        boot_delay_median_seconds=options.boot_delay_median_seconds,
        boot_delay_p99_seconds=options.boot_delay_p99_seconds,
    )


def pod_controller_options(options: WorkloadOptions) -> PodControllerOptions:
    return PodControllerOptions(
        kubeconfig=_kubeconfig(options),
        metrics_addr=_address(options, POD_CONTROLLER_PORT),
        qps=options.pod_controller_qps,
        burst=options.pod_controller_burst,
        priority_class_defaults=options.pod_controller_priority_class_defaults,
    )


def load_driver_options(options: WorkloadOptions) -> LoadDriverOptions:
    return LoadDriverOptions(
        cluster_id=options.cluster_id,
        kubeconfig=_kubeconfig(options),
        metrics_addr=_address(options, LOAD_DRIVER_PORT),
        profile=options.load_profile,
        demand_ready_file=options.shared_dir / DEMAND_MARKER,
        fill_bound_file=options.shared_dir / FILL_MARKER,
        service_account_dir=options.service_account_dir,
        tls_dir=options.tls_dir,
        shard_addr=shard_of(options.cluster_id, options.shard_addrs),
        provider_addr=options.provider_addr,
        coordinator_addrs=options.coordinator_addrs,
    )


def operator_options(options: WorkloadOptions) -> OperatorOptions:
    return OperatorOptions(
        cluster_id=options.cluster_id,
        shard_addr=shard_of(options.cluster_id, options.shard_addrs),
        kubeconfig=_kubeconfig(options),
        metrics_addr=_address(options, OPERATOR_PORT),
        qps=options.operator_qps,
        burst=options.operator_burst,
        ack_concurrency=options.operator_ack_concurrency,
        rollup_interval_seconds=options.operator_rollup_interval_seconds,
        bootstrap_template_file=options.operator_bootstrap_template_file,
        tls_dir=options.tls_dir,
        plaintext=options.plaintext,
        renewal=options.renewal,
    )


def shard_of(cluster_id: str, shard_addrs: str) -> str:
    """The shard that this cluster belongs to for life."""
    shards = shard_addrs.split(",")
    return shards[ordinal_of(cluster_id) % len(shards)]


def _kubeconfig(options: WorkloadOptions) -> Path:
    return options.shared_dir / "admin.kubeconfig"


def _address(options: WorkloadOptions, port: int) -> str:
    return f"{options.pod_ip}:{port}"


async def _exists(path: Path) -> bool:
    return path.exists()


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False

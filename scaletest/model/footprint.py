"""What a run is predicted to take from its hosts: memory, and the writes that do no work.

Measured on the embedded host (ADR-9); rounded up, so that a host with the predicted memory has enough.
"""

from dataclasses import dataclass

GIB = 2**30
_MIB, _KIB = 2**20, 2**10

# The two containers of a kwok-cluster pod, empty.
_APISERVER_BASE = 600 * _MIB
_WORKLOAD_BASE = 340 * _MIB
# What each Pod (with its CapacityRequest) and each node adds.
_APISERVER_PER_POD = 200 * _KIB
_APISERVER_PER_NODE = 80 * _KIB
_WORKLOAD_PER_POD = 35 * _KIB
_SHARD_BASE = 80 * _MIB
_SHARD_PER_MACHINE = 4 * _KIB
_PROVIDER_BASE = 80 * _MIB
_PROVIDER_PER_MACHINE = 1 * _KIB
# Coordinator with its etcd, issuer, Prometheus.
_SYSTEM_BASE = 370 * _MIB
# The embedded host's control plane and kubelet, and the runner.
_HOST_BASE = 750 * _MIB

# On the embedded host, where all of a run shares the cores: so many Pods on each passed as a whole run (dev-50 on two
# cores, docs/results.md). Ten times as many were void; what lies between was not measured.
MEASURED_PODS_PER_CORE = 2_500

# KWOK renews a lease four times in its duration.
_RENEWALS_PER_LEASE = 4
# Create, CapacityRequest, bind, status, acknowledgement, delete: writes that one replaced Pod causes.
WRITES_PER_POD = 8


@dataclass(frozen=True)
class Footprint:
    """Predicted, per part."""

    apiserver_bytes: int
    workload_bytes: int
    shard_bytes: int
    provider_bytes: int
    # All that one host carries (the embedded host carries everything).
    host_bytes: int
    lease_writes_per_sec: float
    work_writes_per_sec: float

    @property
    def kwok_pod_bytes(self) -> int:
        return self.apiserver_bytes + self.workload_bytes


def predict_footprint(
    *,
    pods_per_cluster: int,
    nodes_per_cluster: int,
    clusters: int,
    clusters_per_host: int,
    embedded: bool,
    shards: int,
    records_per_shard: int,
    lease_seconds: int,
    churn_per_minute: float,
) -> Footprint:
    """Memory and writes of a run at its full target."""
    apiserver = _APISERVER_BASE + pods_per_cluster * _APISERVER_PER_POD + nodes_per_cluster * _APISERVER_PER_NODE
    workload = _WORKLOAD_BASE + pods_per_cluster * _WORKLOAD_PER_POD
    shard = _SHARD_BASE + records_per_shard * _SHARD_PER_MACHINE
    kwok = apiserver + workload
    provider = _PROVIDER_BASE + shards * records_per_shard * _PROVIDER_PER_MACHINE
    system = _SYSTEM_BASE + provider + shards * shard
    host = _HOST_BASE + clusters * kwok + system if embedded else max(min(clusters, clusters_per_host) * kwok, system)
    return Footprint(
        apiserver_bytes=apiserver,
        workload_bytes=workload,
        shard_bytes=shard,
        provider_bytes=provider,
        host_bytes=host,
        lease_writes_per_sec=clusters * nodes_per_cluster * _RENEWALS_PER_LEASE / lease_seconds
        if lease_seconds
        else 0.0,
        work_writes_per_sec=clusters * pods_per_cluster * churn_per_minute / 60 * WRITES_PER_POD,
    )


def apiserver_memory_mib(pods_per_cluster: int) -> int:
    """The soft memory limit of a cluster's kube-apiserver: twice its live heap. It is a backstop: at its live heap it
    would do little but collect garbage."""
    return 500 + pods_per_cluster * 16 // 100

"""A substrate: what the hosts are, what fits on one, and what it costs (spec/harness.md §2.2)."""

from typing import Annotated, Literal

from pydantic import Field

from scaletest.model.base import Document
from scaletest.model.profile import Metadata, NonNegative


class Host(Document):
    """One host of the fleet that carries the test."""

    v_cpu: Annotated[int, Field(gt=0, alias="vCPU")]
    memory_gi_b: Annotated[int, Field(gt=0, alias="memoryGiB")]


class ClusterPoint(Document):
    """The operating point of one KWOK cluster."""

    pods_per_cluster: Annotated[int, Field(gt=0)]
    clusters_per_host: Annotated[int, Field(gt=0)]
    storage: Literal["etcd", "kine"]
    # Measured by a short run on one cluster; decides ramp feasibility.
    bind_throughput_pods_per_sec: Annotated[float, Field(gt=0)]
    # KWOK renews each node's lease this often × 4; 0 switches leases off (nothing here needs them).
    node_lease_seconds: Annotated[int, Field(ge=0)] = 0


class ContainerResources(Document):
    """cpu and memory as Kubernetes quantities."""

    cpu: str
    memory: str


class KwokPod(Document):
    """Applied to both containers of a kwok-cluster pod, so a pod takes twice this."""

    requests: ContainerResources
    limits: ContainerResources
    shared_volume_size_limit: str = "1Gi"


class Apiserver(Document):
    """Extra flags for every KWOK cluster's kube-apiserver."""

    extra_flags: tuple[str, ...] = ()


class CostEstimate(Document):
    """What a host costs."""

    per_host_usd_per_hour: NonNegative = 0.0
    notes: str = ""


class Substrate(Document):
    """Where a profile runs."""

    api_version: Literal["bigfleet.io/scaletest/v1"]
    kind: Literal["Substrate"]
    metadata: Metadata = Metadata()
    # `embedded` brings its own control plane on this machine; `context` uses the current kube context.
    host_kind: Literal["embedded", "context"] = "context"
    host: Host
    cluster: ClusterPoint
    kwok_pod: KwokPod
    apiserver: Apiserver = Apiserver()
    cost_estimate: CostEstimate = CostEstimate()
    provisioning: str = ""

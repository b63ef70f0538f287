"""A substrate: what the hosts are, what fits on one, and what it costs (docs/reference/harness.md#substrate)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bigfleet.core.quantity import parse_milli
from scaletest.model.documents.base import Document, refuse_all
from scaletest.model.documents.profile import Metadata
from scaletest.model.documents.quantities import Quantity


class Host(Document):
    """One host of the fleet that carries the test."""

    v_cpu: Annotated[int, Field(gt=0, le=100_000, alias="vCPU")]
    """Cores."""
    memory_gi_b: Annotated[float, Field(gt=0, le=1_000_000, alias="memoryGiB")]
    """Memory."""


class ClusterPoint(Document):
    """The operating point of one KWOK cluster."""

    pods_per_cluster: Annotated[int, Field(gt=0, le=1_000_000)]
    """Pods that one cluster's control plane carries."""
    clusters_per_host: Annotated[int, Field(gt=0, le=1000)]
    """Clusters that fit on one host."""
    storage: Literal["etcd", "kine"]
    """What stands behind the apiserver. kine's SQLite loses writes under this load, and needs `kine` in the image."""
    bind_throughput_pods_per_sec: Annotated[float, Field(gt=0, le=1_000_000)]
    """What one cluster's scheduler binds, measured by a short run; decides whether the ramp is feasible."""
    node_lease_seconds: Annotated[int, Field(ge=0, le=3600)] = 0
    """KWOK renews each node's lease four times in this long; 0 switches leases off (nothing here needs them)."""


class ContainerResources(Document):
    """What one container is given."""

    cpu: Quantity
    """Cores."""
    memory: Quantity
    """Bytes."""


class KwokPod(Document):
    """Applied to both containers of a kwok-cluster pod, so a pod takes twice this."""

    requests: ContainerResources
    """What is set aside."""
    limits: ContainerResources
    """What is never exceeded."""
    shared_volume_size_limit: Quantity = "1Gi"
    """Memory-backed volume of the two containers: certificates, and etcd's data."""

    @model_validator(mode="after")
    def _limits_reach_requests(self) -> Self:
        given = {name: (getattr(self.requests, name), getattr(self.limits, name)) for name in ("cpu", "memory")}
        refuse_all(
            f"limits.{name} {limit} is below requests.{name} {request}"
            for name, (request, limit) in given.items()
            if parse_milli(limit) < parse_milli(request)
        )
        return self


class Apiserver(Document):
    """The KWOK clusters' kube-apiserver."""

    extra_flags: tuple[Annotated[str, Field(pattern=r"^--[a-z]")], ...] = ()
    """Flags on top of ours, such as `--max-requests-inflight=4000`."""


class CostEstimate(Document):
    """What a host costs."""

    per_host_usd_per_hour: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    """US dollars."""
    notes: str = ""
    """Where the price comes from."""


class SelfCheck(Document):
    """Whether the load came, and how strained the machine was.

    Where the load did not come, a verdict is void. A strained machine makes void only what it can have caused: a bar
    that a good BigFleet may miss on such a machine, and that was missed while it was strained. A pass stays a pass.
    """

    load_delivered_fraction: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Of the deletions, their successors, the losses and the steps that were planned, so many must come within 5 s of
    their time (or all but three)."""
    load_scrape_gap_seconds: Annotated[float, Field(gt=0, le=3600)] = 15.0
    """For no longer may a load-driver or the provider go unseen: what it did meanwhile is not known."""
    missed_scrapes_fraction: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Strain: share of its scrapes that a process of the harness may miss; 1: not judged."""
    event_loop_lag_p99_seconds: Annotated[float, Field(gt=0, le=3600)] = 1.0
    """Strain: how late the event loops of load-driver and node-creator may run."""
    run_delay_fraction: Annotated[float, Field(gt=0, le=100)] = 0.25
    """Strain: share of its worst minute for which a process of BigFleet may wait for a core; 100: not judged."""
    cpu_pressure_percent: Annotated[float, Field(gt=0, le=100)] = 60.0
    """Strain: share of the worst minute in which something waited for a core (PSI `some`); 100: not judged."""
    apiserver_mutating_p99_seconds: Annotated[float, Field(gt=0, le=3600)] = 2.0
    """Strain: what a write may take in any KWOK cluster."""


class Substrate(Document):
    """Where a profile runs."""

    api_version: Literal["bigfleet.io/scaletest/v1"]
    kind: Literal["Substrate"]
    metadata: Metadata = Metadata()
    """Its name, and one line about it."""
    host_kind: Literal["embedded", "context"] = "context"
    """`embedded`: this machine brings its own control plane; `context`: a kube context, see `--context`."""
    host: Host | None = None
    """One host of the fleet; the embedded host leaves it out: it is this machine."""
    cluster: ClusterPoint
    """The operating point of one KWOK cluster."""
    kwok_pod: KwokPod
    """What a kwok-cluster pod is given."""
    apiserver: Apiserver = Apiserver()
    """The KWOK clusters' kube-apiserver."""
    self_check: SelfCheck = SelfCheck()
    """Whether the load came, and how strained the machine was."""
    cost_estimate: CostEstimate = CostEstimate()
    """What a host costs."""
    provisioning: str = ""
    """How to get such hosts, for people."""

    @model_validator(mode="after")
    def _hosts_are_known(self) -> Self:
        if self.host is None and self.host_kind != "embedded":
            raise ValueError("host is missing: vCPU and memoryGiB of one host")
        if self.host is not None and self.host_kind == "embedded":
            raise ValueError("host: the embedded host is this machine; leave it out")
        return self

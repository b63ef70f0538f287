"""The operator's settings, named like its flags (docs/reference/engine.md#flags)."""

from dataclasses import dataclass, field
from pathlib import Path

from bigfleet.security.choice import check_choice
from bigfleet.security.renewal import Renewal

# The longest time between two roll-ups, unless it is set.
ROLLUP_SECONDS = 10.0


@dataclass(frozen=True)
class OperatorOptions:
    """Settings of the operator."""

    cluster_id: str
    """The cluster's name for life: the shard keys its demand by it, and its certificate must carry it."""
    shard_addr: str
    """`host:port` of the one shard that serves this cluster."""
    kubeconfig: Path
    """How to reach the cluster's apiserver: certificates or a token."""
    metrics_addr: str = ":8770"
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""
    qps: float = 200.0
    """Requests per second to the cluster's apiserver, on average."""
    burst: int = 400
    """Requests that may go out at once after a pause."""
    ack_concurrency: int = 64
    """CapacityRequests acknowledged at the same time."""
    rollup_interval_seconds: float = ROLLUP_SECONDS
    """The longest time between two roll-ups, 0 = 10 s; changed demand is sent within a second."""
    bootstrap_template_file: Path | None = None
    """A Go template of .ClusterID, .MachineID and .Requirements (.Key, .Operator, .Values); None renders a comment."""
    tls_dir: Path | None = None
    """The operator's certificate, key and CA."""
    plaintext: bool = False
    """Without any TLS: the shard cannot tell whose demand this is; only for trying things out."""
    renewal: Renewal = field(default_factory=Renewal)

    def __post_init__(self) -> None:
        check_choice(self.tls_dir, self.plaintext)

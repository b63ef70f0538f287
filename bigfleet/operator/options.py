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

    # The cluster's name for life: the shard keys its demand by it, and its certificate must carry it.
    cluster_id: str
    # `host:port` of the one shard that serves this cluster.
    shard_addr: str
    # How to reach the cluster's apiserver: certificates or a token.
    kubeconfig: Path
    # `host:port` of /metrics, /healthz and /readyz; 0 = nowhere.
    metrics_addr: str = ":8770"
    # Requests per second to the cluster's apiserver, on average.
    qps: float = 200.0
    # Requests that may go out at once after a pause.
    burst: int = 400
    # CapacityRequests acknowledged at the same time.
    ack_concurrency: int = 64
    # The longest time between two roll-ups, 0 = 10 s; changed demand is sent within a second.
    rollup_interval_seconds: float = ROLLUP_SECONDS
    # A Go template of .ClusterID, .MachineID and .Requirements (.Key, .Operator, .Values); None renders a comment.
    bootstrap_template_file: Path | None = None
    # The operator's certificate, key and CA.
    tls_dir: Path | None = None
    # Without any TLS: the shard cannot tell whose demand this is; only for trying things out.
    plaintext: bool = False
    renewal: Renewal = field(default_factory=Renewal)

    def __post_init__(self) -> None:
        check_choice(self.tls_dir, self.plaintext)

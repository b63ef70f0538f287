"""The names and ports that a run uses on its cluster by default.

See docs/reference/harness.md#names-and-ports.
"""

RELEASE = "scaletest"
NAMESPACE = "bigfleet-scaletest"
# How the runner tells the fleet where the run stands: {phase, soakStart}. The chart lets load-drivers read it.
RUN_CONFIG_MAP = "scaletest-run"

# Where a coordinator answers bigfleetctl.
COORDINATOR_PORT = 7790
PROMETHEUS_POD = "prometheus-0"
# Of the chart; the sidecar that hands its snapshots out is one port further (ADR-2).
PROMETHEUS_PORT = 9090
SNAPSHOTS_PORT = PROMETHEUS_PORT + 1
SHARD_POD = "bigfleet-shard-0"
SHARD_PORT = 7780
# Where the fake provider answers, and hands its ledger out.
PROVIDER_POD = "bigfleet-provider-0"
PROVIDER_PORT = 7800

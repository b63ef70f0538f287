"""The fleet at a glance, for whoever watches: fill by cluster, Pods bound, machines by state, shortfalls, losses."""

import asyncio
from typing import Any

from scaletest.run.prometheus import Prometheus

_FIGURES = {
    "bound": "sum(bigfleet_scaletest_node_creator_bound_pods)",
    "shortfalls": "sum(bigfleet_shard_shortfalls)",
    "lost": "sum(bigfleet_provider_losses_total)",
}
_ACTIVE = "sum by (pod) (scaletest_loadgen_cr_active)"
_MACHINES = "sum by (state) (bigfleet_shard_inventory_machines)"


async def look_at_fleet(prometheus: Prometheus) -> dict[str, Any]:
    """Fields for an event; a figure without a value is None. Raises PrometheusUnreachable."""
    (active, machines), figures = await asyncio.gather(
        asyncio.gather(prometheus.samples(_ACTIVE), prometheus.samples(_MACHINES)),
        asyncio.gather(*(prometheus.value(query) for query in _FIGURES.values())),
    )
    return {
        "active": {sample.labels.get("pod", "?"): sample.value for sample in active},
        "machines": {sample.labels.get("state", "?"): sample.value for sample in machines if sample.value},
        **dict(zip(_FIGURES, figures, strict=True)),
    }

"""The fleet at a glance, for the display: fill by cluster, Pods bound, machines by state, shortfalls, losses."""

import asyncio
from typing import Any

from scaletest.judge.gates.figures import DEMAND_BY_CLUSTER, MACHINES_BY_STATE, MACHINES_LOST, PODS_BOUND, SHORTFALLS
from scaletest.judge.prometheus import Prometheus

_FIGURES = {
    "bound": PODS_BOUND,
    "shortfalls": SHORTFALLS,
    "lost": MACHINES_LOST,
}


async def look_at_fleet(prometheus: Prometheus) -> dict[str, Any]:
    """Fields for an event; a figure without a value is None. Raises PrometheusUnreachable."""
    (active, machines), figures = await asyncio.gather(
        asyncio.gather(prometheus.samples(DEMAND_BY_CLUSTER), prometheus.samples(MACHINES_BY_STATE)),
        asyncio.gather(*(prometheus.value(query) for query in _FIGURES.values())),
    )
    return {
        "active": {sample.labels.get("pod", "?"): sample.value for sample in active},
        "machines": {sample.labels.get("state", "?"): sample.value for sample in machines if sample.value},
        **dict(zip(_FIGURES, figures, strict=True)),
    }

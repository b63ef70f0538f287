"""The fleet at a glance, for the display: fill by cluster, Pods bound, machines by state, shortfalls, losses."""

import asyncio
from typing import TypedDict

from scaletest.judge.gates.figures import DEMAND_BY_CLUSTER, MACHINES_BY_STATE, MACHINES_LOST, PODS_BOUND, SHORTFALLS
from scaletest.judge.prometheus import Prometheus


class FleetFigures(TypedDict, total=False):
    """What an event says of the fleet; nothing at all if Prometheus did not answer."""

    # Pods asked for, by kwok-cluster pod.
    active: dict[str, float]
    # By state; a state without machines is left out.
    machines: dict[str, float]
    # Pods that have a node, shortfalls, machines lost; None without a value.
    bound: float | None
    shortfalls: float | None
    lost: float | None


async def look_at_fleet(prometheus: Prometheus) -> FleetFigures:
    """Fields for an event; a figure without a value is None. Raises PrometheusUnreachable."""
    (active, machines), (bound, shortfalls, lost) = await asyncio.gather(
        asyncio.gather(prometheus.samples(DEMAND_BY_CLUSTER), prometheus.samples(MACHINES_BY_STATE)),
        asyncio.gather(*(prometheus.value(query) for query in (PODS_BOUND, SHORTFALLS, MACHINES_LOST))),
    )
    return {
        "active": {sample.labels.get("pod", "?"): sample.value for sample in active},
        "machines": {sample.labels.get("state", "?"): sample.value for sample in machines if sample.value},
        "bound": bound,
        "shortfalls": shortfalls,
        "lost": lost,
    }

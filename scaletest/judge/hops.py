"""One Pod's way, hop by hop (docs/reference/harness.md#hops), and which hop is broken when nothing arrives.

Hops stand in the order of cause and effect, which is the order to look in.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scaletest.errors import PrometheusUnreachable
from scaletest.judge.prometheus import Prometheus
from scaletest.model.documents.profile import DemandMode


@dataclass(frozen=True)
class Hop:
    """One step: the program that takes it, and the counter or gauge that is above zero once it was taken."""

    row: int
    name: str
    actor: str
    query: str
    # The scrape target of the actor, as labels of `up`; empty when another hop watches it.
    target: str
    # Nothing takes it where CapacityRequests exist without Pods.
    of_pods: bool = False


_CLUSTER = 'component="kwok-cluster",metrics_port='

HOPS = (
    Hop(
        1, "workloads are created", "load-driver", "sum(scaletest_loadgen_cr_created_total)", f'{_CLUSTER}"load-driver"'
    ),
    Hop(
        2,
        "Pods are found unschedulable",
        "kube-scheduler",
        'sum(scheduler_schedule_attempts_total{result="unschedulable"})',
        f'{_CLUSTER}"control-plane"',
        of_pods=True,
    ),
    Hop(
        3,
        "Pods become CapacityRequests",
        "pod-controller",
        'sum(bigfleet_unschedulable_pod_controller_reconciles_total{outcome="cr_created"})',
        f'{_CLUSTER}"pod-controller"',
        of_pods=True,
    ),
    Hop(
        4,
        "CapacityRequests are rolled up and acknowledged",
        "operator",
        "sum(bigfleet_operator_acknowledged_total)",
        f'{_CLUSTER}"operator"',
    ),
    Hop(5, "the shard knows the needs", "shard", "sum(bigfleet_shard_demand_machines)", 'component="shard"'),
    Hop(6, "the shard decides", "shard", 'sum(bigfleet_shard_actions_total{kind=~"Bootstrap|Provision"})', ""),
    Hop(
        7,
        "the provider accepts Configure",
        "provider",
        'sum(bigfleet_provider_rpcs_total{rpc="Configure",code="OK"})',
        'component="provider"',
    ),
    Hop(
        8,
        "machines are announced as UpcomingNodes",
        "operator",
        'sum(bigfleet_operator_upcoming_node_writes_total{outcome="success"})',
        "",
    ),
    Hop(
        9,
        "UpcomingNodes become Nodes",
        "node-creator",
        "sum(bigfleet_scaletest_node_creator_fake_nodes_created_total)",
        f'{_CLUSTER}"node-creator"',
    ),
    Hop(
        7,
        "nodes phone home and machines become Configured",
        "provider",
        'sum(bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap",outcome="success"})',
        "",
    ),
    Hop(
        10,
        "Pods are bound",
        "kube-scheduler",
        'sum(scheduler_schedule_attempts_total{result="scheduled"})',
        "",
        of_pods=True,
    ),
    Hop(11, "Pods run", "kwok", "sum(bigfleet_scaletest_node_creator_running_pods)", "", of_pods=True),
)


def hops_of(mode: DemandMode) -> tuple[Hop, ...]:
    """The hops that such a demand goes."""
    return HOPS if mode == "pod" else tuple(hop for hop in HOPS if not hop.of_pods)


@dataclass(frozen=True)
class HopReading:
    """How much of the flow passed a hop, and whether its actor answers its scrapes."""

    hop: Hop
    passed: float | None
    answers: bool


async def read_hops(prometheus: Prometheus, hops: Iterable[Hop]) -> list[HopReading]:
    async def read(hop: Hop) -> HopReading:
        passed = await prometheus.value(hop.query)
        alive = not hop.target or await prometheus.value(f"min(up{{{hop.target}}})") == 1
        return HopReading(hop, passed, alive)

    return list(await asyncio.gather(*(read(hop) for hop in hops)))


async def read_outcomes(prometheus: Prometheus) -> dict[str, float]:
    """How Bootstraps ended, for the sentence about hop 7."""
    rows = await prometheus.samples(
        'sum by (outcome) (bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap"}) > 0'
    )
    return {sample.labels["outcome"]: sample.value for sample in rows}


def broken_hop(readings: Sequence[HopReading], outcomes: dict[str, float]) -> str:
    """The sentence about the first broken hop; empty when the flow reaches the end.

    A silent actor explains every hop behind it, so those come first; then the first hop that nothing has passed.
    """
    silent = next((reading for reading in readings if not reading.answers), None)
    if silent:
        hop = silent.hop
        return f"hop {hop.row} ({hop.name}): the {hop.actor} does not answer its scrapes"
    dry = next((reading for reading in readings if not reading.passed), None)
    if dry:
        hop = dry.hop
        ended = ", ".join(f"{outcome} {count:g}" for outcome, count in sorted(outcomes.items()))
        detail = f"; Bootstraps so far: {ended}" if hop.row == 7 and ended else ""
        return f"hop {hop.row} ({hop.name}): nothing has passed the {hop.actor}{detail}"
    return ""


async def diagnose(prometheus: Prometheus, hops: Iterable[Hop]) -> str:
    """Which hop is broken, in one sentence; empty when all of them flow."""
    try:
        readings, outcomes = await asyncio.gather(read_hops(prometheus, hops), read_outcomes(prometheus))
    except PrometheusUnreachable as error:
        return str(error)
    return broken_hop(readings, outcomes)

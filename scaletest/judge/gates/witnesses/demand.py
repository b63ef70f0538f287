"""Demand: one CapacityRequest for each living Pod, right in every field, acknowledged, and held by the engine."""

from collections.abc import Iterator

from scaletest.judge.gates.figures import by_cluster, grown
from scaletest.judge.gates.gate import Gate, Suspect
from scaletest.judge.gates.measures import Envelope, SecondsOutside, WorstMember
from scaletest.judge.gates.suspects import ASKED_WRONGLY, SENT_RIGHTLY
from scaletest.judge.gates.witnesses.queries import (
    OUTSIDE_SECONDS,
    WAITS_FOR_A_CORE,
    WITNESS,
    edge_of,
    worst_age,
)
from scaletest.model.plan import Plan

# Two roll-up intervals and a scrape: what the engine holds may be as old as that.
_DEMAND_BEHIND_SECONDS = 25
# A Pod and its request are written by two programs, one after the other.
_UNPAIRED_SECONDS = 15
# The witness of rows shows nothing if its last look is too old, and is scraped every 5 s.
_LOOKED_SECONDS = 30
# A roll-up, and the writes after it: 1.0 to 1.8 s in smoke and in dev-50, also where two cores do the work of four.
_ANSWERED_SECONDS, _RARELY_ANSWERED = 4, 0.01
# Requests that are acknowledged by the batch in which their first acknowledgement has not come back yet.
_TOLD_AGAIN, _PODS_PER_TOLD_AGAIN = 5, 500
# A Pod of the envelope's slack is nothing at a single moment, and one Pod too few when it lasts. The mean of a healthy
# claim was never outside of the means of its envelope; without one Pod of each row it is by 0.5 to 0.9 of a Pod.
_MEAN_PODS, _MEAN_SHARE = 0.3, 0.002
_DEMAND_LABELS = ("cluster", "resource", "priority_class", "kind")


def demand_gates(plan: Plan) -> Iterator[Gate]:
    slo, without_pods = plan.profile.slo, plan.profile.load_profile.mode == "cr"
    skip = "CapacityRequests exist without Pods here (BF-0017)" if without_pods else ""
    yield Gate(
        "podsWithoutRequestSeconds",
        "Pods without a request",
        WorstMember(worst_age("pods_without_request"), expects="clusters"),
        bar=_UNPAIRED_SECONDS,
        unit="s",
        component="pod-controller",
        meaning="A living Pod has no CapacityRequest for this long.",
        claim="one CapacityRequest for each living Pod",
        witness="the Pods and CapacityRequests of the cluster",
        strain=WAITS_FOR_A_CORE,
        skip=skip,
    )
    yield Gate(
        "requestsWithoutPodSeconds",
        "requests without a Pod",
        WorstMember(worst_age("requests_without_pod"), expects="clusters"),
        bar=2 * _UNPAIRED_SECONDS,
        unit="s",
        component="pod-controller",
        meaning="A CapacityRequest outlives its Pod for this long, or a Pod has two.",
        claim="one CapacityRequest for each living Pod",
        witness="the Pods and CapacityRequests of the cluster",
        strain=WAITS_FOR_A_CORE,
        skip=skip,
    )
    yield Gate(
        "requestsWrong",
        "requests that say something else",
        WorstMember(
            f"sum by (cluster, field) ({by_cluster(f'{WITNESS}requests_wrong_total')})", members=("cluster", "field")
        ),
        bar=0,
        unit="requests",
        component="pod-controller",
        meaning="A CapacityRequest asks for something else than its Pod: priority, amounts, group, constraints.",
        claim="the CapacityRequest's spec",
        witness="the draw that the Pod was made from, field by field",
        skip=skip,
    )
    yield Gate(
        "requestsUnacknowledgedSeconds",
        "requests without an answer",
        WorstMember(worst_age("requests_unacknowledged"), expects="clusters"),
        bar=slo.operator_ack_p99_seconds,
        unit="s",
        component="operator",
        meaning="A CapacityRequest is not marked Acknowledged for this long.",
        claim="bigfleet_operator_acknowledged_total",
        witness="status.phase of the objects",
        strain=WAITS_FOR_A_CORE,
    )
    waiting = by_cluster(f"avg_over_time({WITNESS}requests_unacknowledged[{{w}}])")
    answered = by_cluster(f"rate({WITNESS}requests_acknowledged_total[{{w}}])")
    yield Gate(
        "requestsAnsweredMeanSeconds",
        "requests answered after, on average",
        WorstMember(
            # Where none is acknowledged, those that wait are as slow as it gets, and if none waits all is well.
            f"max by (cluster) ({waiting}) / clamp_min(max by (cluster) ({answered}), {_RARELY_ANSWERED})",
            expects="clusters",
        ),
        bar=_ANSWERED_SECONDS,
        unit="s",
        component="operator",
        meaning="New demand is not rolled up as soon as it has been still for half a second.",
        claim="demand that changes goes out within two seconds and a half",
        witness="the mean number of requests without an acknowledgement, by how many are acknowledged a second",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "acknowledgedAgain",
        "requests acknowledged twice",
        WorstMember(
            f"sum by (cluster) ({by_cluster(grown(f'{WITNESS}requests_acknowledged_again_total'))})",
            expects="clusters",
        ),
        bar=_TOLD_AGAIN + plan.pods // _PODS_PER_TOLD_AGAIN,
        unit="requests",
        component="operator",
        meaning="CapacityRequests are acknowledged that have been: each time is a write to their cluster.",
        claim="a request is acknowledged once",
        witness="status.acknowledgedAt of the objects",
    )
    yield Gate(
        "demandHeld",
        "demand held wrongly",
        SecondsOutside(
            (_demand_of("last_over_time(bigfleet_shard_cluster_demand[9s])"),),
            go_between=_demand_of(by_cluster("last_over_time(bigfleet_operator_sent_demand[9s])")),
            blame_beyond="shard",
        ),
        bar=OUTSIDE_SECONDS,
        unit="s",
        component="operator",
        meaning="The engine holds more or less demand of a cluster than its Pods ask for.",
        claim="what the engine holds, by cluster, resource, priority and kind",
        witness="the living Pods, with the amounts of the draw",
        strain=WAITS_FOR_A_CORE,
    )
    # A shard that is killed on purpose claims nothing for a while, and that while has no mean.
    if not plan.profile.runner_actions:
        sent = _mean_outside(by_cluster("avg_over_time(bigfleet_operator_sent_demand[{w}])"))
        yield Gate(
            "demandMean",
            "demand held wrongly, on average",
            WorstMember(
                _mean_outside("avg_over_time(bigfleet_shard_cluster_demand[{w}])"), members=(*_DEMAND_LABELS, "side")
            ),
            bar=_MEAN_PODS,
            unit="Pods",
            component="operator",
            suspects=(Suspect("shard", f"max({sent}) <= bool {_MEAN_PODS}", 0),),
            meaning="The engine holds a little more or less than the Pods of a cluster ask for, and always does.",
            claim="what the engine holds, by cluster, resource, priority and kind: its mean",
            witness="the means of the lowest and the highest that the living Pods asked for lately",
            strain=WAITS_FOR_A_CORE,
        )
    wrong = by_cluster(f"max_over_time({WITNESS}needs_wrong[{{w}}])")
    # A witness that has fallen silent is no witness: its last look must be from the end of the soak.
    looked = by_cluster(f"last_over_time({WITNESS}needs_wrong[{_LOOKED_SECONDS}s])")
    yield Gate(
        "needsWrong",
        "needs held wrongly",
        WorstMember(
            f"max by (cluster, field) ({wrong}) and on (cluster) max by (cluster) ({looked})",
            members=("cluster", "field"),
            expects="clusters",
        ),
        bar=0,
        unit="needs",
        component="operator",
        meaning="A row of the engine asks for something else than the workloads do, is missing, or is asked by none.",
        claim="each row of the engine: requirements, spread, priority, penalties, gangs, min_unit, and its machines",
        witness="the rows that the living Pods of the draw must lead to, field by field",
        suspects=(ASKED_WRONGLY, SENT_RIGHTLY),
        strain=WAITS_FOR_A_CORE,
    )


def _demand_of(claim: str) -> Envelope:
    """What the shard or the operator says of a cluster's demand, against its living Pods."""
    by = ",".join(_DEMAND_LABELS)
    return Envelope(
        claim=f"sum by ({by}) ({claim})",
        lowest=f"min by ({by}) ({by_cluster(edge_of('demand', 'min', 'lowest', _DEMAND_BEHIND_SECONDS))})",
        highest=f"max by ({by}) ({by_cluster(edge_of('demand', 'max', 'highest', _DEMAND_BEHIND_SECONDS))})",
        slack=f"max by ({by}) ({by_cluster(f'last_over_time({WITNESS}largest_pod[1m])')})",
        by=_DEMAND_LABELS,
    )


def _mean_outside(claim: str) -> str:
    """By how many of the largest Pods a mean of demand is beyond that of the highest, or below that of the lowest."""
    by = ",".join(_DEMAND_LABELS)
    mean = f"sum by ({by}) ({claim})"
    lowest, highest = (
        f"min by ({by}) ({by_cluster(f'avg_over_time({witness}[{{w}}])')})"
        for witness in (f'{WITNESS}demand{{edge="{edge}"}}' for edge in ("lowest", "highest"))
    )
    largest = f"max by ({by}) ({by_cluster(f'last_over_time({WITNESS}largest_pod[1m])')})"
    sides = {
        "more": f"({mean} - {1 + _MEAN_SHARE} * {highest}) / {largest}",
        "less": f"({1 - _MEAN_SHARE} * {lowest} - {mean}) / {largest}",
    }
    return " or ".join(
        f'label_replace(clamp_min({query}, 0), "side", "{side}", "", "")' for side, query in sides.items()
    )

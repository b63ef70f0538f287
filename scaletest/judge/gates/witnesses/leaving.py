"""What happens to a machine's Pods, and to its record, on its way out."""

from collections.abc import Iterator

from scaletest.judge.gates.figures import grown
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Growth, Promql, WorstMember
from scaletest.judge.gates.suspects import MISNAMED, NEVER_ASKED, NEVER_NOTICED, TOLD_INCOMPLETELY
from scaletest.judge.gates.witnesses.queries import LEDGER, NODE_CREATOR, WAITS_FOR_A_CORE, worst_of_clusters
from scaletest.model.plan import Plan

_OUTLIVED = f"{NODE_CREATOR}outlived_machines_oldest_seconds"
_KEPT = f"{NODE_CREATOR}kept_records_oldest_seconds"
# In a healthy run a drain leaves no Pod behind: the load has no budgets, a Pod leaves at once when it is evicted, and
# the shortest grace is 10 s. A Pod that kube-scheduler placed before it saw the cordon can be bound after the last
# look of the operator; a Pod that came a moment ago is not counted. Smoke drains some seven Nodes, with four Pods on
# them: a drain that leaves Pods where they are is seen by any of them. Larger fleets may lose one in so many to a
# grace that ran out.
_PODS_PER_CUT_OFF = 1000
# The load may delete a Pod of a Node that was cordoned, before it is evicted: that is less than a second, in which one
# Pod in a hundred is deleted. So one may be, where another one is evicted. A large fleet drains and sheds at the same
# time, and evicts some hundreds.
_DELETED = 1
# The shortest grace is 10 s; an operator that dials anew is asked for what is left of it.
_RUSHED_SECONDS = 5.0
# A shard notices within a cycle or two that a machine is gone, and tells the operator. The record of a drained machine
# goes then; that of a machine which failed stays for 60 s more, in which people can read why.
_NOTICED_SECONDS, _FAILED_RECORD_SECONDS = 45, 60


def leaving_gates(plan: Plan) -> Iterator[Gate]:
    yield Gate(
        "podsCutOff",
        "Pods cut off by a drain",
        Growth(f"{NODE_CREATOR}pods_cut_off_total"),
        bar=plan.pods // _PODS_PER_CUT_OFF,
        unit="Pods",
        component="operator",
        suspects=(MISNAMED, NEVER_ASKED),
        meaning="Pods lived on a Node when it went, although its machine was drained and not lost.",
        claim="a drain empties the node",
        witness="the Pods of each Node that goes after a drain, by the provider's word on why it goes",
        strain="evictions that wait for a core outlast their grace",
    )
    left = {how: grown(f'{NODE_CREATOR}cordoned_pods_total{{how="{how}"}}') for how in ("evicted", "deleted")}
    yield Gate(
        "podsNotEvicted",
        "Pods deleted where a drain evicts",
        WorstMember(
            f"clamp_min(sum({left['deleted']}) - sum({left['evicted']}), 0)"
            # Drained Nodes may hold few Pods: one that was deleted where none was evicted counts twice.
            f" + (sum({left['deleted']}) > bool 0) * (sum({left['evicted']}) == bool 0)",
            members=(),
        ),
        bar=_DELETED + plan.pods // _PODS_PER_CUT_OFF,
        unit="Pods",
        component="operator",
        meaning="More Pods of cordoned Nodes were deleted than evicted: no disruption budget was asked.",
        claim="a drain evicts",
        witness="the mark that the apiserver leaves on each Pod that is evicted",
    )
    yield Gate(
        "drainedUncordoned",
        "Nodes drained and not cordoned",
        Growth(f"{NODE_CREATOR}uncordoned_nodes_total"),
        bar=plan.pods // _PODS_PER_CUT_OFF,
        unit="machines",
        component="operator",
        suspects=(MISNAMED, NEVER_ASKED),
        meaning="A Node went by a drain, and until then new Pods could be placed on it.",
        claim="a drain cordons first",
        witness="spec.unschedulable of each Node that goes after a drain",
    )
    yield Gate(
        "drainsRushed",
        "drains without time",
        Promql(
            f'sum(max_over_time({LEDGER}drain_grace_seconds_bucket{{le="{_RUSHED_SECONDS}"}}[{{w}}]))'
            f' + sum(max_over_time(bigfleet_operator_drain_grace_seconds_bucket{{le="{_RUSHED_SECONDS}"}}[{{w}}]))'
        ),
        bar=plan.pods // _PODS_PER_CUT_OFF,
        unit="times",
        component="shard",
        meaning="An operator or the provider is asked to drain in less time than any drain is given.",
        claim="what is drained for nobody has ten minutes, and no victim less than ten seconds",
        witness="the grace of each instruction to an operator, and of each Drain by the provider's ledger",
    )
    yield Gate(
        "recordsIncomplete",
        "records that leave something out",
        Promql(f"sum(max_over_time({NODE_CREATOR}incomplete_records_total[{{w}}]))"),
        bar=0,
        unit="times",
        component="operator",
        suspects=(TOLD_INCOMPLETELY,),
        meaning="An UpcomingNode does not say which host its machine has, or why it failed.",
        claim="what UpcomingNodes say of a machine",
        witness="the provider's name for the host, and that a machine which failed has a reason",
    )
    yield Gate(
        "outlivedMachineSeconds",
        "machine announced that is gone",
        WorstMember(worst_of_clusters(_OUTLIVED)),
        bar=_NOTICED_SECONDS,
        unit="s",
        component="operator",
        suspects=(NEVER_NOTICED,),
        meaning="An UpcomingNode still stands for a machine that was lost or given back this long ago.",
        claim="UpcomingNodes",
        witness="the provider's word on which machines a cluster has",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "recordsKeptSeconds",
        "record of a machine that is gone",
        WorstMember(worst_of_clusters(_KEPT)),
        bar=_NOTICED_SECONDS + _FAILED_RECORD_SECONDS,
        unit="s",
        component="operator",
        suspects=(NEVER_NOTICED,),
        meaning="The UpcomingNode of a machine that was lost or given back is still there, in whatever phase.",
        claim="UpcomingNodes are removed",
        witness="the provider's word on which machines a cluster has",
        strain=WAITS_FOR_A_CORE,
    )

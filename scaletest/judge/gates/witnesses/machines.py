"""Machines: known as they are, replaced when lost, announced, joined before they count, and as many as are needed."""

from collections import Counter
from collections.abc import Iterator, Mapping

from scaletest.judge.gates.figures import MACHINES_HELD, quantile
from scaletest.judge.gates.gate import Component, Gate, Suspect
from scaletest.judge.gates.measures import Envelope, Growth, Promql, SecondsOutside, WorstMember
from scaletest.judge.gates.suspects import (
    BLOB_SECONDS,
    BLOB_USED_AGAIN,
    CALL_SECONDS,
    CALLED_AWAY,
    DRAINS_NOTHING,
    LEFT_OUT_OF_LIST,
    NEVER_ANNOUNCED,
    NEVER_LISTED,
    REFUSED,
    REFUSED_CALLS,
    REFUSES_BY_ITSELF,
    SAID_TOO_EARLY,
    SLOW_LIST,
    SUPPLIERS,
    TOLD_LATE,
    TOLD_TOO_LATE,
    TOLD_WRONGLY,
)
from scaletest.judge.gates.witnesses.queries import (
    LEDGER,
    NODE_CREATOR,
    OUTSIDE_SECONDS,
    WAITS_FOR_A_CORE,
    WITNESS,
    edge_of,
    lately,
    without_pods,
    worst_age,
    worst_of_clusters,
)
from scaletest.model.plan import Plan

_UNKNOWN = f"{NODE_CREATOR}unknown_machines_oldest_seconds"
# A cycle, in which the shard asks its provider, and one more.
_MACHINES_BEHIND_SECONDS = 20
_REPLACED_SECONDS = 30
# Between two losses that meet, the second one waits for a cycle more.
_UNREPLACED_SECONDS = 45
_COVERED_SECONDS = 30
_WAITING_SECONDS = 45
# More machines than the draw needs, at most: what two losses ripple into, and what a reclaim waits for.
_HELD_SHARE, _HELD_MORE = 1.05, 2
# Machines that are bought for what another one covers before they are there: those on their way when a burst ends.
_UNUSED, _MACHINES_PER_UNUSED = 10, 50
# Calls that were carried out, and those of strangers, which are refused for that.
_ANSWERED = f'{LEDGER}calls_total{{code=~"OK|PERMISSION_DENIED|UNAUTHENTICATED"}}'
# States in which a machine rests: in the others it is for seconds only.
_AT_REST = 'state=~"Speculative|Idle|Failed"'
# Machines that rest, more or fewer: those that two cycles move.
_REST_SLACK = 3


def machine_gates(plan: Plan) -> Iterator[Gate]:
    yield Gate(
        "machinesAgree",
        "machines known wrongly",
        SecondsOutside(
            (
                _agreement("bigfleet_shard_cluster_machines", "bound_machines", ("cluster",)),
                _agreement("bigfleet_shard_cluster_allocatable", "bound_allocatable", ("cluster", "resource")),
                _agreement("bigfleet_shard_cluster_price_per_hour", "bound_price_per_hour", ("cluster",)),
            ),
            expects="nothing",
        ),
        bar=OUTSIDE_SECONDS,
        unit="s",
        component="shard",
        suspects=(
            TOLD_LATE,
            SLOW_LIST,
            NEVER_LISTED,
        ),
        meaning="The shard counts more or fewer machines than are in service, or of another shape or price.",
        claim="the shard's inventory, by cluster",
        witness="the provider's ledger: machines whose Node is Ready, with the shapes of the fleet file",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "freeMachinesAgree",
        "free machines known wrongly",
        SecondsOutside((_free_machines(),), expects="nothing"),
        bar=OUTSIDE_SECONDS,
        unit="s",
        component="shard",
        suspects=(
            TOLD_LATE,
            SLOW_LIST,
            NEVER_LISTED,
        ),
        meaning="The shards together know more or fewer Speculative, Idle or Failed machines than there are.",
        claim="the shards' inventories, by state",
        witness="the provider's own count",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "lossReplacedP99Seconds",
        "lost machines replaced p99",
        Promql(quantile(0.99, f"{LEDGER}replacement_seconds", "le, cluster", "max")),
        bar=_REPLACED_SECONDS,
        unit="s",
        component="shard",
        suspects=SUPPLIERS,
        meaning="From the loss of a machine to another machine's Ready Node it takes too long.",
        claim="losses are noticed and replaced",
        witness="the provider's ledger: strike, and the next Node of the cluster that is Ready",
        strain=WAITS_FOR_A_CORE,
        count=f"{LEDGER}replacement_seconds_count",
        cause="replacements",
        histogram=f"{LEDGER}replacement_seconds",
        held=True,
        window="until the shed",
        # A profile that has too few losses for the other bar on machines has too few for this one.
        off=plan.profile.slo.shard_configure_phase_p99_seconds is None,
    )
    yield Gate(
        "lossUnreplacedSeconds",
        "lost machine not replaced",
        WorstMember(f"max by (cluster) (max_over_time({LEDGER}unreplaced_oldest_seconds[{{w}}]))"),
        bar=_UNREPLACED_SECONDS,
        unit="s",
        component="shard",
        suspects=SUPPLIERS,
        meaning="A machine was lost this long ago, and no other one has come for it.",
        claim="losses are noticed and replaced",
        witness="the provider's ledger",
        strain=WAITS_FOR_A_CORE,
        window="until the shed",
    )
    yield Gate(
        "waitingForNodeSeconds",
        "machine waits for its Node",
        WorstMember(f"max by (cluster) (max_over_time({LEDGER}waiting_for_node_oldest_seconds[{{w}}]))"),
        bar=_WAITING_SECONDS,
        unit="s",
        component="operator",
        suspects=(NEVER_ANNOUNCED, CALLED_AWAY, TOLD_TOO_LATE),
        meaning="A machine was configured, and its Node does not come: it was not announced.",
        claim="every Bootstrap is announced as an UpcomingNode",
        witness="the provider's ledger: Configure carried out, and no Ready Node",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "blobUnansweredSeconds",
        "bootstrap blob not sent",
        WorstMember("max by (cluster) (max_over_time(bigfleet_shard_cluster_unanswered_seconds[{w}]))"),
        bar=BLOB_SECONDS,
        unit="s",
        component="operator",
        meaning="The shard asked an operator for the text that makes a machine a node, and has no answer.",
        claim="the operator answers",
        witness="the shard's open questions",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "callUnfinishedSeconds",
        "call to the provider unfinished",
        WorstMember(f"max by (call) (max_over_time({LEDGER}oldest_seconds[{{w}}]))", members=("call",)),
        bar=CALL_SECONDS,
        unit="s",
        component="provider",
        meaning="The provider accepted a call, and its end was never told.",
        claim="accepted calls end",
        witness="the provider's ledger: what its answers have said since",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "callsRefused",
        "calls that the provider refuses",
        Promql(f"sum(max_over_time({LEDGER}calls_total[{{w}}])) - sum(max_over_time({_ANSWERED}[{{w}}]))"),
        bar=REFUSED_CALLS,
        unit="times",
        component="shard",
        suspects=(REFUSES_BY_ITSELF,),
        meaning="The shard asks for what cannot be done: since it started, the provider has refused this many calls.",
        claim="the shard knows what its machines can do",
        witness="the provider's ledger: calls by the answer's code",
        rules=REFUSED,
    )
    yield _violation(
        "configuredBeforeReady",
        "Configured before Ready",
        "configured_before_ready",
        "provider",
        "The provider called a machine Configured before its Node was Ready (BF-0056).",
        "Configured means joined and Ready",
        "the order of the two events, per machine",
    )
    yield _violation(
        "nodesVanished",
        "Nodes that vanish",
        "node_vanished",
        "operator",
        "A Node left its cluster although its machine was neither lost nor drained.",
        "machines in service have a Node",
        "the clusters' Nodes, and the provider's ledger",
        DRAINS_NOTHING,
        CALLED_AWAY,
    )
    yield _violation(
        "blobsWrong",
        "bootstrap blobs that are wrong",
        "blob_wrong",
        "operator",
        "The text that makes a machine a node names another machine or cluster.",
        "the operator's bootstrap blob",
        "what the provider was handed with Configure",
        BLOB_USED_AGAIN,
    )
    yield _violation(
        "fencing",
        "calls that break the fence",
        "two_owners|fence_broken",
        "provider",
        "Two shards command one machine, or an older call was accepted after a newer one.",
        "epochs and sequence numbers fence",
        "the provider's ledger: shard, epoch and sequence of every accepted call",
    )
    yield _violation(
        "shapesWrong",
        "machines described wrongly",
        "shape_told_wrong",
        "provider",
        "A machine is told otherwise than it is: price, kind, place, room, what its shard stamped on it; or host or"
        " reason are missing.",
        "what List and Get say of a machine",
        "the fleet file, and the shard_metadata of accepted Configures",
    )
    yield _violation(
        "stampsWrong",
        "machines stamped wrongly",
        "stamp_wrong",
        "shard",
        "A machine is stamped with another priority, penalty or gang than the need has that it was given to.",
        "the shard_metadata of a Configure, by which a shard that starts again knows whom a machine serves",
        "the fields against each other: the need's fingerprint says the same",
    )
    yield _violation(
        "listsIncomplete",
        "whole Lists that leave machines out",
        LEFT_OUT_OF_LIST,
        "provider",
        "A walk through everything, List by List, does not tell of a machine that is there.",
        "List tells of every machine, however many pages that takes",
        "the provider's ledger: machines that were told before, and by no page of the walk",
    )
    yield Gate(
        "shapesAnnounced",
        "Nodes announced wrongly",
        Promql(f"sum(max_over_time({NODE_CREATOR}shape_mismatches_total[{{w}}]))"),
        bar=0,
        unit="times",
        component="operator",
        suspects=(TOLD_WRONGLY,),
        meaning="An UpcomingNode promises other resources or labels than its machine has.",
        claim="what UpcomingNodes say of a machine",
        witness="the fleet file, by way of the provider's word",
    )
    yield Gate(
        "unknownMachineSeconds",
        "machine announced that is not there",
        WorstMember(worst_of_clusters(_UNKNOWN)),
        bar=_WAITING_SECONDS,
        unit="s",
        component="shard",
        meaning="An UpcomingNode stands for a machine that the provider never gave to this cluster.",
        claim="UpcomingNodes",
        witness="the provider's word on which machines a cluster has",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "readyBeforeNode",
        "announced Ready before its Node was",
        Promql(f"sum(max_over_time({NODE_CREATOR}ready_before_node_total[{{w}}]))"),
        bar=0,
        unit="times",
        component="operator",
        meaning="BigFleet called a machine Ready whose Node had never been (BF-0056).",
        suspects=(SAID_TOO_EARLY,),
        claim="Configured means joined and Ready",
        witness="the order of the two events in the cluster, per machine",
    )
    yield _violation(
        "boughtNeedlessly",
        "bought although one stood idle",
        "bought_needlessly",
        "shard",
        "A machine was bought while one like it, in the same place and for nothing, stood idle.",
        "the engine takes what costs least",
        "the provider's ledger: Creates, and free machines that stand idle",
    )
    yield Gate(
        "boughtUnused",
        "bought for nothing",
        Growth(f"{LEDGER}bought_unused_total"),
        bar=_UNUSED + plan.demand.total_machines // _MACHINES_PER_UNUSED,
        unit="machines",
        component="shard",
        meaning="Machines were bought, and no cluster was given them: something else had met the need by then.",
        claim="what is being created counts",
        witness="the provider's ledger: from the end of a Create to the next Configure of the machine",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "uncoveredSeconds",
        "demand without capacity",
        WorstMember(worst_of_clusters(f"{WITNESS}uncovered_seconds"), expects="clusters"),
        bar=_COVERED_SECONDS,
        unit="s",
        component="shard",
        suspects=SUPPLIERS,
        meaning="The Ready Nodes of a cluster are smaller than what its Pods ask for, for this long.",
        claim="standing shortfalls: none",
        witness="allocatable of Ready Nodes, and what was lost within 30 s, against the living Pods",
        strain=WAITS_FOR_A_CORE,
        skip=_scarce(plan),
    )
    yield Gate(
        "podsLackingCapacitySeconds",
        "Pod that fits no Node",
        WorstMember(worst_age("pods_lacking_capacity"), expects="clusters"),
        bar=2 * _COVERED_SECONDS,
        unit="s",
        component="shard",
        suspects=SUPPLIERS,
        meaning="A Pod waits for this long, and no Ready Node matches its selector, domain and size.",
        claim="standing shortfalls: none",
        witness="the waiting Pods and the Ready Nodes of the cluster",
        strain=WAITS_FOR_A_CORE,
        skip=_scarce(plan) or without_pods(plan),
    )
    yield Gate(
        "machinesHeld",
        "machines held",
        WorstMember(f"max_over_time({MACHINES_HELD}[{{w}}:5s])", members=()),
        bar=int(plan.demand.total_machines * _level(plan) * _HELD_SHARE + _HELD_MORE + sum(_unjudged(plan).values())),
        unit="machines",
        component="shard",
        meaning="More machines are in service than the draw needs: an autoscaler that over-buys is wrong too.",
        claim="the engine buys what is needed",
        witness="the provider's ledger against the draw",
        window="calm",
    )
    # Where machines of other shapes are on offer than the demand was drawn for, none of them may fit better.
    if not plan.catalog.seed_archetypes:
        yield Gate(
            "capacityHeld",
            "capacity held, of what is needed",
            WorstMember(_capacity_held(plan), members=("resource",)),
            bar=_HELD_SHARE,
            unit="share",
            component="shard",
            meaning="The machines in service have more of a resource than the draw needs: they are too large.",
            claim="the engine buys what is needed",
            witness="allocatable by the provider's ledger, less the two largest machines, against the draw",
            window="calm",
        )


def _level(plan: Plan) -> float:
    """The highest demand of the soak, as a multiple of the draw."""
    load = plan.profile.load_profile
    return max(1.0, load.open_loop_demand_multiplier, *(step.target_multiplier for step in load.demand_steps))


def _unjudged(plan: Plan) -> Mapping[str, int]:
    """Machines by archetype that bursts need which have no window of their own."""
    return {} if plan.moves else plan.demand.burst_machines


def _capacity_held(plan: Plan) -> str:
    """By resource, the share of what is needed that is held at most."""
    needed: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    bursts: Counter[str] = Counter()
    for name, machines in plan.demand.machines.items():
        room = plan.catalog.by_name[name].machine_allocatable(plan.profile.scale.density)
        for resource, milli in room.items():
            needed[resource] += round(machines * _level(plan) * milli)
            largest[resource] = max(largest[resource], milli)
            bursts[resource] += _unjudged(plan).get(name, 0) * milli
    shares = []
    for resource, milli in sorted((+needed).items()):
        held = f'sum by (resource) ({LEDGER}bound_allocatable{{edge="highest",resource="{resource}"}})'
        excused = _HELD_MORE * largest[resource] + bursts[resource]
        shares.append(f"(1000 * {held} - {excused}) / {milli}")
    return f"max by (resource) (max_over_time(({' or '.join(shares)})[{{w}}:5s]))"


def _agreement(claim: str, witness: str, by: tuple[str, ...], slack: str = "") -> Envelope:
    labels, behind = ",".join(by), _MACHINES_BEHIND_SECONDS
    return Envelope(
        claim=f"sum by ({labels}) (last_over_time({claim}[9s]))",
        lowest=f"sum by ({labels}) ({edge_of(witness, 'min', 'lowest', behind, LEDGER)})",
        highest=f"sum by ({labels}) ({edge_of(witness, 'max', 'highest', behind, LEDGER)})",
        by=by,
        slack=slack,
    )


def _free_machines() -> Envelope:
    known = f"bigfleet_provider_machines{{{_AT_REST}}}"
    window = lately(_MACHINES_BEHIND_SECONDS)
    return Envelope(
        claim=f"sum by (state) (last_over_time(bigfleet_shard_inventory_machines{{{_AT_REST}}}[9s]))",
        lowest=f"sum by (state) (min_over_time({known}{window}))",
        highest=f"sum by (state) (max_over_time({known}{window}))",
        by=("state",),
        slack=f"{_REST_SLACK} + 0 * sum by (state) ({known})",
    )


def _violation(
    key: str, title: str, rules: str, component: Component, meaning: str, claim: str, witness: str, *suspects: Suspect
) -> Gate:
    return Gate(
        key,
        title,
        Promql(f'sum(max_over_time({LEDGER}violations_total{{rule=~"{rules}"}}[{{w}}]))'),
        bar=0,
        unit="times",
        component=component,
        meaning=meaning,
        claim=claim,
        witness=witness,
        suspects=suspects,
        rules=rules,
    )


def _scarce(plan: Plan) -> str:
    if plan.profile.slo.expect_standing_shortfall:
        return "demand exceeds supply on purpose"
    return (
        "an open loop asks for more than there is" if plan.profile.load_profile.open_loop_demand_multiplier > 1 else ""
    )

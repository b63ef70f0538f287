"""What must go on: cycles, roll-ups, reports, sessions. A process that hangs is in no histogram."""

from collections.abc import Iterator

from scaletest.judge.gates.figures import by_cluster
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import LongestGap, Promql, Share, WorstMember
from scaletest.judge.gates.suspects import HUNG_UP, NEVER_SENT
from scaletest.judge.gates.witnesses.queries import WAITS_FOR_A_CORE
from scaletest.model.plan import Plan

_GAP_SECONDS = 30
_CYCLE_INTERVALS, _CYCLE_SECONDS = 3, 10
_TAKEN_SHARE = 0.9
# An operator waits until demand has been still for half a second, so that changes never make more than two a second.
_ROLLUPS_PER_SECOND = 3
# A shard reports every five seconds.
_REPORTS_PER_SECOND = 1
# Roll-ups of a cluster that change something come less than once a second, and machines move besides. Healthy shards of
# two clusters had 0.8 cycles and 1.8 Lists a second in their busiest half minute.
_CYCLES_PER_SECOND, _LISTS_PER_CYCLE = 2, 1.5


def continuity_gates(plan: Plan) -> Iterator[Gate]:
    cycle = max(_GAP_SECONDS, _CYCLE_INTERVALS * _CYCLE_SECONDS, 2 * plan.profile.slo.shard_cycle_duration_p99_seconds)
    yield Gate(
        "cycleGapSeconds",
        "longest time without a cycle",
        LongestGap('bigfleet_shard_cycle_duration_seconds_count{component="shard"}', "pod", "shards"),
        bar=cycle,
        unit="s",
        component="shard",
        meaning="A shard decided nothing for this long.",
        claim="cycles go on",
        witness="the count of cycles, by scrape",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "rollupGapSeconds",
        "longest time without a roll-up",
        LongestGap("bigfleet_shard_cluster_rollups_total", "cluster", "clusters"),
        bar=_GAP_SECONDS + _CYCLE_SECONDS,
        unit="s",
        component="operator",
        meaning="No roll-up of a cluster was accepted for this long.",
        claim="roll-ups go on",
        witness="the count of accepted roll-ups of each cluster, by scrape",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "reportGapSeconds",
        "longest time without a report",
        LongestGap("sum by (shard) (bigfleet_coordinator_shard_reports_total)", "shard", "shards"),
        bar=_GAP_SECONDS,
        unit="s",
        component="coordinator",
        suspects=(NEVER_SENT,),
        meaning="No report of a shard was taken in for this long.",
        claim="reports go on",
        witness="the count of reports that the coordinators took, by scrape",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "rollupsPerSecond",
        "roll-ups a second",
        WorstMember("max by (cluster) (rate(bigfleet_shard_cluster_rollups_total[{w}]))", expects="clusters"),
        bar=_ROLLUPS_PER_SECOND,
        unit="1/s",
        component="operator",
        meaning="An operator rolls up more often than its demand can change.",
        claim="roll-ups are few: at changes, and at every interval",
        witness="the count of accepted roll-ups of each cluster",
    )
    yield Gate(
        "reportsPerSecond",
        "reports a second",
        WorstMember("max by (shard) (rate(bigfleet_coordinator_shard_reports_total[{w}]))", members=("shard",)),
        bar=_REPORTS_PER_SECOND,
        unit="1/s",
        component="shard",
        meaning="A shard reports more often than at every interval.",
        claim="reports are few",
        witness="the count of reports that the coordinators took",
    )
    cycles = _CYCLES_PER_SECOND + plan.geometry.kwok_clusters / plan.geometry.shards
    yield Gate(
        "cyclesPerSecond",
        "cycles a second",
        WorstMember('rate(bigfleet_shard_cycle_duration_seconds_count{component="shard"}[{w}])', members=("pod",)),
        bar=cycles,
        unit="1/s",
        component="shard",
        meaning="A shard decides more often than anything can have changed.",
        claim="a cycle comes by the timer, or when something wakes it",
        witness="the count of cycles",
    )
    yield Gate(
        "listsPerSecond",
        "Lists a second",
        Promql(f"sum(rate(bigfleet_provider_ledger_list_seconds_count[{{w}}])) / {plan.geometry.shards}"),
        bar=_LISTS_PER_CYCLE * cycles,
        unit="1/s",
        component="shard",
        meaning="A shard asks its provider more often than anything can have changed, or for everything each time.",
        claim="Lists are few: with each cycle, and every second while machines are on their way",
        witness="the provider's ledger: Lists answered",
    )
    sent = by_cluster("bigfleet_operator_rollups_sent_total")
    yield Gate(
        "rollupsTakenFraction",
        "roll-ups that are taken",
        Share("sum by (cluster) (bigfleet_shard_cluster_rollups_total)", f"sum by (cluster) ({sent})", "cluster"),
        bar=_TAKEN_SHARE,
        unit="share",
        component="shard",
        meaning="Of the roll-ups that an operator sent, its shard took fewer.",
        claim="roll-ups accepted",
        witness="roll-ups sent, counted by the other side",
        strain="newer roll-ups replace those that wait for a core",
        least=True,
    )
    yield Gate(
        "reportsTakenFraction",
        "reports that are taken",
        Share(
            "sum by (shard) (label_replace("
            'bigfleet_shard_reports_total{outcome="taken"}, "shard", "$1", "pod", "(.*)"))',
            'sum by (shard) (label_replace(bigfleet_shard_reports_total, "shard", "$1", "pod", "(.*)"))',
            "shard",
        ),
        bar=_TAKEN_SHARE,
        unit="share",
        component="coordinator",
        meaning="Of the reports that a shard sent, fewer were acknowledged.",
        claim="reports that are taken in",
        witness="the answers to them, counted by the sender",
        strain="a report may time out",
        least=True,
    )
    yield Gate(
        "sessionsRedialled",
        "sessions that were dialled anew",
        WorstMember(
            "max by (cluster) (max_over_time(bigfleet_shard_cluster_sessions_total[{w}])"
            " - min_over_time(bigfleet_shard_cluster_sessions_total[{w}]))",
            expects="clusters",
        ),
        bar=plan.certificate_renewals,
        unit="times",
        component="operator",
        suspects=(HUNG_UP,),
        meaning="An operator's session broke and was dialled anew.",
        claim="sessions stay up",
        witness="the shard's own count of sessions, by cluster",
        strain="a keepalive goes unanswered",
    )

"""Reports: what a shard tells the coordinator of its machines, and what the coordinator keeps of that."""

from collections.abc import Iterator

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Envelope, SecondsOutside, WorstMember
from scaletest.judge.gates.suspects import NEVER_LISTED, NEVER_SENT
from scaletest.judge.gates.witnesses.queries import LEDGER, OUTSIDE_SECONDS, WAITS_FOR_A_CORE, lately

# A cycle, in which the shard asks its provider, and one more; then its report, which may have to be sent again.
_REPORTS_BEHIND_SECONDS = 30
# While no coordinator leads, what the last leader kept still stands.
_KEPT_SECONDS = 30
_KEPT = "bigfleet_coordinator_reported"
_SENT = "bigfleet_shard_reported"
# Machines more or fewer: those that two cycles move.
_SLACK = 3
# As many reports as `reportGapSeconds` lets a shard miss.
_OLDEST_SECONDS = 30


def report_gates() -> Iterator[Gate]:
    yield Gate(
        "reportsWrong",
        "machines reported wrongly",
        SecondsOutside(
            (_reported(_KEPT, by="shard", seconds=_KEPT_SECONDS),),
            expects="nothing",
            go_between=_reported(_SENT, by="pod", seconds=_KEPT_SECONDS),
            blame_beyond="coordinator",
        ),
        bar=OUTSIDE_SECONDS,
        unit="s",
        component="shard",
        suspects=(NEVER_LISTED,),
        meaning="By its shards' last reports the coordinator knows more or fewer machines than there are.",
        claim="the reports that the coordinator keeps: machines by zone and by instance type, and how many are free",
        witness="the provider's ledger and its own count; what the shards sent tells which side is wrong",
        strain=WAITS_FOR_A_CORE,
    )
    yield Gate(
        "reportKeptSeconds",
        "age of a report that is kept",
        WorstMember("max by (shard) (max_over_time(bigfleet_coordinator_report_age_seconds[{w}]))", members=("shard",)),
        bar=_OLDEST_SECONDS,
        unit="s",
        component="coordinator",
        suspects=(NEVER_SENT,),
        meaning="What the coordinator says of a shard is this old, however many reports have come since.",
        claim="the coordinator keeps the last report of each shard",
        witness="the clock",
        strain=WAITS_FOR_A_CORE,
    )


def _reported(prefix: str, by: str, seconds: int) -> Envelope:
    """What a program says of the reports, added up over all shards, against the provider."""
    # Of two leaders that followed each other both may be in the window.
    machines = f"max by ({by}, zone) (last_over_time({prefix}_machines[{seconds}s]))"
    types = f"max by ({by}, instance_type) (last_over_time({prefix}_machines_of_type[{seconds}s]))"
    free = f"max by ({by}) (last_over_time({prefix}_free_machines[{seconds}s]))"
    return Envelope(
        claim=_by_what(f"sum by (zone) ({machines})", f"sum by (instance_type) ({types})", f"sum({free})"),
        lowest=_there_are("min"),
        highest=_there_are("max"),
        by=("what",),
        slack=f"{_SLACK} + 0 * ({_there_are('max')})",
    )


def _there_are(extreme: str) -> str:
    """By the provider, where there is a coordinator to keep reports at all."""
    window = lately(_REPORTS_BEHIND_SECONDS)
    machines = f"sum by (zone) ({extreme}_over_time({LEDGER}machines{window}))"
    types = f"sum by (instance_type) ({extreme}_over_time({LEDGER}machines_of_type{window}))"
    free = f'sum({extreme}_over_time(bigfleet_provider_machines{{state=~"Speculative|Idle"}}{window}))'
    return f"(({_by_what(machines, types, free)}) and on () count(bigfleet_coordinator_is_leader))"


def _by_what(by_zone: str, by_type: str, free: str) -> str:
    """Three figures side by side: machines by zone, by instance type, and free ones wherever and whatever they are."""
    zones = f'label_replace({by_zone}, "what", "$1", "zone", "(.*)")'
    types = f'label_replace({by_type}, "what", "type $1", "instance_type", "(.*)")'
    return f'{zones} or {types} or label_replace({free}, "what", "free", "", "")'

"""What must not move at steady demand, and what must move when demand does."""

from collections.abc import Iterator

from scaletest.judge.gates.figures import MACHINES_HELD, RECLAIMS
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Growth, Recovery, WorstMember
from scaletest.judge.gates.suspects import NOT_CARRIED_OUT, SUPPLIERS
from scaletest.judge.gates.witnesses.queries import LEDGER, WAITS_FOR_A_CORE, WITNESS
from scaletest.model.plan import Plan

# Machines that were put off may be lost before the next cycle, or take the place of one that is.
_FORGOTTEN = 2
# A cycle comes after ten seconds at the latest.
_WITHIN_SECONDS, _SCRAPE_SECONDS = 20, 5


def movement_gates(plan: Plan) -> Iterator[Gate]:
    slo = plan.profile.slo
    yield Gate(
        "drainsAtSteadyDemand",
        "drains at steady demand",
        Growth(f'{LEDGER}calls_total{{call="Drain",code="OK"}}'),
        bar=slo.max_reclaim_actions_during_soak,
        unit="machines",
        component="shard",
        meaning="Machines are drained although the demand has not fallen.",
        claim="Reclaims and Preempts that the shard counts",
        witness="the provider's ledger: Drains accepted",
        window="steady",
        skip="this profile is about taking machines away" if slo.expect_preemptions else "",
    )
    yield Gate(
        "deletesAtSteadyDemand",
        "machines given back at steady demand",
        Growth(f'{LEDGER}calls_total{{call="Delete",code="OK"}}'),
        bar=max(slo.max_reclaim_actions_during_soak, plan.losses(plan.soak_seconds) // 4),
        unit="machines",
        component="shard",
        meaning="Machines are given back although demand is steady: more than earlier Reclaims explain.",
        claim="idle machines are kept for a while",
        witness="the provider's ledger: Deletes accepted",
        window="steady",
    )
    if not slo.expect_preemptions:
        yield Gate(
            "preemptionsAtSteadyDemand",
            "preemptions at steady demand",
            Growth('bigfleet_shard_actions_total{kind="Preempt"}'),
            bar=slo.max_reclaim_actions_during_soak if slo.expect_standing_shortfall else 0,
            unit="machines",
            component="shard",
            meaning="Machines are taken from lower priorities although nothing is short.",
        )
    if any(move.up for move in plan.moves):
        yield Gate(
            "stepCoveredSeconds",
            "step up covered after",
            Recovery(up=True, query=f"max({WITNESS}uncovered_seconds)"),
            bar=max(move.within_seconds for move in plan.moves if move.up),
            unit="s",
            component="shard",
            suspects=SUPPLIERS,
            meaning="New demand waits too long for Ready Nodes.",
            claim="demand is covered",
            witness="allocatable of Ready Nodes against the living Pods, in the step's own window",
            strain=WAITS_FOR_A_CORE,
        )
    if any(not move.up for move in plan.moves):
        yield Gate(
            "shedDrains",
            "machines drained after a shed",
            Growth(f'{LEDGER}calls_total{{call="Drain",code="OK"}}'),
            bar=1,
            unit="machines",
            component="shard",
            suspects=(NOT_CARRIED_OUT,),
            meaning="No machine is taken away although fewer are asked for; that losses shrink the fleet is no merit.",
            claim="excess is reclaimed",
            witness="the provider's ledger: Drains accepted, in the shed's own window",
            strain=WAITS_FOR_A_CORE,
            window="sheds",
            least=True,
        )
        yield Gate(
            "reclaimsForgotten",
            "reclaims put off and forgotten",
            WorstMember(f"max_over_time(({_forgotten()})[{{w}}:5s])", members=("pod",)),
            bar=_FORGOTTEN,
            unit="machines",
            component="shard",
            meaning="The cap put off so many machines of one cycle, and no cycle of the next 20 s took one of them.",
            claim="what the cap puts off is taken in the next cycles",
            witness="the counts of Reclaims and of those put off, at one scrape and four scrapes later",
            strain=WAITS_FOR_A_CORE,
        )
        yield Gate(
            "shedReturnedSeconds",
            "excess given back after",
            Recovery(up=False, query=MACHINES_HELD),
            bar=max(move.within_seconds for move in plan.moves if not move.up),
            unit="s",
            component="shard",
            meaning="Machines that are no longer needed are kept too long.",
            claim="excess is reclaimed",
            witness="the provider's ledger: machines in service, in the shed's own window",
            strain=WAITS_FOR_A_CORE,
        )


def _forgotten() -> str:
    """By shard: machines that a cycle put off twenty seconds ago and that no cycle has taken since.

    Several cycles of one scrape interval put the same machines off: what each put off is their mean, less those that
    the later ones took. Any Reclaim since makes it 0.
    """
    put_off_then, taken_then = (_in_an_interval(one) for one in ("bigfleet_shard_reclaims_capped_total", RECLAIMS))
    cycles = f"clamp_min({taken_then}, 1)"
    none_since = f"((sum by (pod) ({RECLAIMS}) - sum by (pod) ({RECLAIMS} offset {_WITHIN_SECONDS}s)) == bool 0)"
    return f"({put_off_then} / {cycles} - ({cycles} - 1) / 2) * {none_since}"


def _in_an_interval(counter: str) -> str:
    """What a shard's counter grew by in the scrape interval that ended so long ago."""
    end, start = _WITHIN_SECONDS, _WITHIN_SECONDS + _SCRAPE_SECONDS
    return f"(sum by (pod) ({counter} offset {end}s) - sum by (pod) ({counter} offset {start}s))"

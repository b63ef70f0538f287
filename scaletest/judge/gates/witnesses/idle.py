"""Bought machines that stand idle: kept for their hold, and not much longer, because they are paid for."""

from collections.abc import Iterator

from bigfleet.provider.fake.ledger.idling import BEFORE_DELETE_SECONDS
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Promql, WorstMember
from scaletest.judge.gates.witnesses.queries import LEDGER, WAITS_FOR_A_CORE
from scaletest.model.plan import Plan

_ON_DEMAND = '{capacity_type="OnDemand"}'
# A shard hears of a machine that has become idle in its next cycle, and gives it back in the first one after the hold:
# two cycles of at most 10 s. On two cores with a load of thirty it took one to five seconds.
_LONGER_SECONDS = 20
# The shard counts from when it has heard, later than the ledger; this much is for the time that an answer takes.
_SHORTER_SECONDS = 2


def idle_gates(plan: Plan) -> Iterator[Gate]:
    hold = plan.idle_hold_seconds
    yield Gate(
        "idlePaidSeconds",
        "bought machine stands idle",
        WorstMember(
            f"max by (capacity_type) (max_over_time({LEDGER}idle_oldest_seconds{_ON_DEMAND}[{{w}}]))",
            members=("capacity_type",),
        ),
        bar=hold + _LONGER_SECONDS,
        unit="s",
        component="shard",
        meaning="An on-demand machine that nothing wants is not given back: it costs money for nothing.",
        claim="idle machines are given back when their hold is over",
        witness="the provider's ledger: machines that are idle, and since when",
        strain=WAITS_FOR_A_CORE,
    )
    if early := [edge for edge in BEFORE_DELETE_SECONDS if edge <= hold - _SHORTER_SECONDS]:
        yield Gate(
            "idleReturnedEarly",
            "bought machines given back early",
            Promql(
                f"sum(max_over_time({LEDGER}idle_before_delete_seconds_bucket"
                f'{{capacity_type="OnDemand",le="{float(early[-1])}"}}[{{w}}]))'
            ),
            bar=0,
            unit="machines",
            component="shard",
            meaning="Idle on-demand machines are given back before their hold is over, and the next Pods buy others.",
            claim="idle machines are kept for their hold",
            witness="the provider's ledger: from idle to the accepted Delete",
        )

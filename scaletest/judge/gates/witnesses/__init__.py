"""The gates that compare what BigFleet says of itself with sources outside of BigFleet (ADR-35).

Three ledgers are not BigFleet's: the load's (what was drawn, and which Pods live), the clusters' own objects, and the
provider's (calls, losses, nodes). Every figure here is per cluster or shard, over the whole soak; the worst member is
the value, and it is named.
"""

from collections.abc import Iterator

from scaletest.judge.gates.figures import by_cluster
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import WorstMember
from scaletest.judge.gates.witnesses.continuity import continuity_gates
from scaletest.judge.gates.witnesses.demand import demand_gates
from scaletest.judge.gates.witnesses.frugality import frugality_gates
from scaletest.judge.gates.witnesses.idle import idle_gates
from scaletest.judge.gates.witnesses.leaving import leaving_gates
from scaletest.judge.gates.witnesses.machines import machine_gates
from scaletest.judge.gates.witnesses.movement import movement_gates
from scaletest.judge.gates.witnesses.queries import WITNESS
from scaletest.judge.gates.witnesses.reports import report_gates
from scaletest.model.plan import Plan


def witness_gates(plan: Plan) -> Iterator[Gate]:
    """Demand, machines, how they leave, what must go on, reports, movement, BigFleet's own use, refused identities."""
    yield from demand_gates(plan)
    yield from machine_gates(plan)
    yield from leaving_gates(plan)
    yield from idle_gates(plan)
    yield from continuity_gates(plan)
    yield from report_gates()
    yield from movement_gates(plan)
    yield from frugality_gates(plan)
    yield Gate(
        "identityRefused",
        "strangers that are refused",
        WorstMember(
            f"min by (cluster, target) ({by_cluster(f'min_over_time({WITNESS}identity_refused[{{w}}])')})",
            members=("cluster", "target"),
            expects="clusters",
            blames=("target",),
        ),
        bar=1,
        unit="times",
        component="shard",
        meaning="A shard, the provider or a coordinator lets a cluster do what is not a cluster's own.",
        claim="sessions and phone-home streams are their clusters' own, machines the shards', reports and domains too",
        witness="a certificate of one cluster, tried before the load starts on every call that is not the cluster's",
        least=True,
    )

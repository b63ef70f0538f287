"""What BigFleet takes for itself: the cores of each process, and memory that only grows."""

from collections.abc import Iterator

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import AtEnd, WorstMember
from scaletest.model.plan import Plan

_PROCESSES = 'component=~"shard|coordinator|kwok-cluster",metrics_port=~"metrics|operator|pod-controller"'
_MEMBERS, _BLAMES = ("pod", "metrics_port"), ("metrics_port", "component")
_PROCESS_CORES, _MACHINES_PER_CORE = 0.5, 50_000
# A shorter soak is over before a process that has just filled up comes to rest.
_SHORTEST_SOAK_SECONDS = 120
# The lowest of the last so many seconds against the highest of as many before half-time: what is freed again, whether
# it peaks early or late, is no growth.
_LOOK_SECONDS = 30
# Healthy processes of smoke grow by 0.05 %, and by less than 1 % in any minute of the soak; a shard that kept a copy
# of its 1,367 machines for every cycle grew by 9 %.
_GROWTH_SHARE = 0.05


def frugality_gates(plan: Plan) -> Iterator[Gate]:
    machines = sum(plan.seeded.values()) / plan.geometry.shards
    yield Gate(
        "bigfleetCpuCores",
        "BigFleet's own CPU",
        WorstMember(
            f"rate(bigfleet_process_cpu_seconds_total{{{_PROCESSES}}}[{{w}}])", members=_MEMBERS, blames=_BLAMES
        ),
        bar=round(_PROCESS_CORES * (1 + machines / _MACHINES_PER_CORE), 2),
        unit="cores",
        component="BigFleet",
        meaning="One process of BigFleet burns more cores than its work explains.",
        claim="BigFleet is frugal",
        witness="the kernel's count of CPU seconds, by process",
    )
    half = round(plan.soak_seconds / 2)
    # More demand needs more memory, and rightly so.
    rises_late = any(at_seconds > half - _LOOK_SECONDS for _, at_seconds in plan.demand_events)
    if plan.soak_seconds >= _SHORTEST_SOAK_SECONDS and not rises_late:
        resident = f"bigfleet_process_resident_bytes{{{_PROCESSES}}}"
        before = f"max_over_time({resident}[{_LOOK_SECONDS}s] offset {half}s)"
        yield Gate(
            "residentGrowth",
            "growth of BigFleet's memory",
            AtEnd(f"min_over_time({resident}[{_LOOK_SECONDS}s]) / {before} - 1", members=_MEMBERS, blames=_BLAMES),
            bar=_GROWTH_SHARE,
            unit="share",
            component="BigFleet",
            meaning="A process of BigFleet needs more and more memory although demand has not risen.",
            claim="BigFleet is frugal",
            witness="the kernel's count of resident bytes, by process, at the end against half-time",
        )

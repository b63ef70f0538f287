"""What can be said against a plan before anything is started: refusals, and warnings (rung 0.5, design.md §4)."""

from collections import Counter
from collections.abc import Collection, Iterator

from bigfleet.core.quantity import parse_milli
from scaletest.errors import UsageError
from scaletest.model.capacity import Shortage, find_shortage
from scaletest.model.demand import burst_machines
from scaletest.model.durations import format_duration
from scaletest.model.footprint import GIB
from scaletest.model.plan import DRAWN_CLUSTERS_MAX, Plan
from scaletest.model.profile import PRIORITY_CLASSES
from scaletest.model.sizing import allocate_machines, largest_remainder
from scaletest.run.gates import all_gates


def refuse_the_impossible(plan: Plan) -> None:
    """Raises UsageError for a plan that no run could bring to a verdict."""
    _refuse_actions_that_miss(plan)
    _refuse_shortage(plan)
    _refuse_too_few_observations(plan)


def refuse_what_is_not_built(plan: Plan) -> None:
    """What a profile or substrate may say, but a run does not do yet."""
    missing = not_built(plan)
    if missing:
        raise UsageError(
            f"not built yet: {', '.join(missing)}", hint="`plan` works for it; `smoke` on `embedded` runs today"
        )


def not_built(plan: Plan) -> list[str]:
    profile, load = plan.profile, plan.profile.load_profile
    asked = {
        "seed.preBind": profile.seed.bound_at_start > 0,
        "loadProfile.anchors": load.anchors,
        "loadProfile.bursts": bool(load.bursts),
        "loadProfile.scaleDowns": bool(load.scale_downs),
        "loadProfile.demandSteps": bool(load.demand_steps),
        "loadProfile.openLoopDemandMultiplier": load.open_loop_demand_multiplier > 1,
        "runnerActions": bool(profile.runner_actions),
        "topology.coordinatorReplicas": plan.geometry.coordinators > 1,
        "more than one shard": plan.geometry.shards > 1,
        "cluster.storage kine": plan.substrate.cluster.storage == "kine",
        "hostKind context": plan.substrate.host_kind == "context",
    }
    return [name for name, wanted in asked.items() if wanted]


def _refuse_actions_that_miss(plan: Plan) -> None:
    for action in plan.profile.runner_actions:
        if action.at_seconds >= plan.soak_seconds:
            raise UsageError(
                f"runnerActions: {action.action} fires at {action.at_seconds:g} s, "
                f"after the soak of {format_duration(plan.soak_seconds)}",
                hint="make --duration longer",
            )
        if action.shard and int(action.shard.rpartition("-")[2]) >= plan.geometry.shards:
            raise UsageError(
                f"runnerActions: {action.action}: there is no {action.shard}, shards: {plan.geometry.shards}",
                hint="set topology.shardReplicas",
            )


def _refuse_too_few_observations(plan: Plan) -> None:
    """A soak that cannot bring the observations its gates need would end in no-data (design.md §4, Enough to judge)."""
    least = plan.profile.slo.min_observations
    for gate in all_gates(plan):
        if gate.cause and (count := plan.expected[gate.cause]) < least:
            raise UsageError(
                f"a soak of {format_duration(plan.soak_seconds)} brings about {count} {gate.cause}; "
                f"the gate {gate.key!r} needs {least}",
                hint=_MORE[gate.cause],
            )


_MORE = {
    "replacements": "make --duration longer, raise shard.failureRatePerSec, or switch the gate off with null",
    "node states": "make --duration longer, raise shard.failureRatePerSec, or switch the gate off with null",
    "rebinds": "make --duration longer, or raise loadProfile.churnPerMinute",
    "cycles": "make --duration longer",
    "roll-ups": "make --duration longer",
    "reports": "make --duration longer",
}


def _refuse_shortage(plan: Plan) -> None:
    """The seeds must be able to cover the demand, or, where a profile is about scarcity, must not."""
    slo = plan.profile.slo
    if slo.expect_standing_shortfall:
        _refuse_the_wrong_shortfall(plan)
        return
    if short := shortage(plan, Counter() if slo.expect_preemptions else Counter(plan.demand.burst_machines)):
        raise _never(short)
    if gang := _homeless_gang(plan):
        raise UsageError(gang, hint="raise seed.speculativeMultiplier or make the gang smaller")
    if slo.expect_preemptions and not _bursts_must_preempt(plan):
        raise UsageError(
            "slo.expectPreemptions: free machines cover the bursts too, so nothing has to be preempted",
            hint="lower seed.speculativeCount, or raise the burst's extraTarget",
        )


def _never(short: Shortage, note: str = "") -> UsageError:
    verb = "asks" if len(short.archetypes) == 1 else "ask"
    return UsageError(
        f"the seeded machines can never satisfy the demand{note}: {' and '.join(short.archetypes)} {verb} for "
        f"{short.asked_machines:,} machines, {short.missing_machines:,} of that shape are missing",
        hint="raise seed.speculativeMultiplier (or speculativeCount), idleHeadroomFraction or configuredFraction",
    )


def _refuse_the_wrong_shortfall(plan: Plan) -> None:
    """Something must be short, and where it is confined to a class, nobody above that class."""
    if shortage(plan, Counter()) is None:
        raise UsageError(
            "slo.expectStandingShortfall: the seeded machines cover all that is asked for, nothing will be short",
            hint="lower the seed block, or raise loadProfile.openLoopDemandMultiplier",
        )
    confined = plan.profile.slo.shortfall_confined_below
    if confined:
        important = {a.name for a in plan.catalog.demand if min(a.priority_classes) > PRIORITY_CLASSES[confined]}
        if short := shortage(plan, Counter(), only=important):
            raise _never(short, f" above {confined}, to which slo.shortfallConfinedBelow confines what is short")


def _bursts_must_preempt(plan: Plan) -> bool:
    """Whether some burst within the soak finds too few free machines when it comes."""
    load = plan.profile.load_profile
    density, clusters = plan.profile.scale.density, plan.geometry.kwok_clusters
    for burst in load.bursts:
        if burst.at_seconds >= plan.soak_seconds:
            continue
        extra = burst_machines([burst], plan.catalog.by_name, clusters, density)
        if shortage(plan, Counter(extra), until_seconds=burst.at_seconds):
            return True
    return False


def shortage(
    plan: Plan, extra: Counter[str], *, only: Collection[str] | None = None, until_seconds: float | None = None
) -> Shortage | None:
    """What the seeds lack at the height of the demand, losses included: a lost machine does not come back."""
    load = plan.profile.load_profile
    peak = max([1.0, load.open_loop_demand_multiplier, *(step.target_multiplier for step in load.demand_steps)])
    wanted = Counter({name: int(count * peak) for name, count in plan.demand.machines.items()})
    lost = plan.losses(plan.soak_seconds if until_seconds is None else until_seconds)
    wanted.update(largest_remainder(lost, plan.demand.machines))
    wanted.update(extra)
    supply: Counter[str] = Counter(_bound(plan))
    for counts in plan.free.values():
        supply.update(counts)
    return find_shortage(
        {name: count for name, count in wanted.items() if only is None or name in only},
        plan.catalog.by_name,
        supply,
        {archetype.name: archetype for archetype in plan.catalog.seeded},
        plan.profile.scale.density,
    )


def _bound(plan: Plan) -> dict[str, int]:
    if not plan.catalog.seed_archetypes:
        return dict(plan.demand.bound)
    total = sum(plan.demand.bound.values())
    return allocate_machines(plan.catalog.seeded, total, plan.profile.scale.density)


def _homeless_gang(plan: Plan) -> str:
    """A gang larger than what any one domain can hold; empty if every gang has a home."""
    seeded = {archetype.name: archetype for archetype in plan.catalog.seeded}
    for name, machines in plan.demand.largest_gang.items():
        archetype = seeded.get(name)
        if archetype is None or archetype.gang is None:
            continue
        held = plan.demand.bound.get(name, 0) + sum(counts.get(name, 0) for counts in plan.free.values())
        if machines > held:
            domain = "rack" if archetype.gang.scope == "sameRack" else "zone"
            return f"a gang of {name} needs {machines} machines in one {domain}, {held} are seeded"
    return ""


def warnings_of(plan: Plan) -> Iterator[str]:
    """What may go wrong, in plain words; nothing here stops a run."""
    geometry, footprint, host = plan.geometry, plan.footprint, plan.host
    if not geometry.ramp_feasible and plan.profile.seed.bound_at_start < 1:
        yield (
            f"the ramp asks for {geometry.ramp_demand_pods_per_sec:.0f} Pods/s, "
            f"{geometry.kwok_clusters} clusters bind {geometry.ramp_supply_pods_per_sec:.0f}: "
            f"the fill takes {format_duration(geometry.total_pods / geometry.ramp_supply_pods_per_sec)} "
            f"instead of {format_duration(plan.profile.load_profile.ramp_seconds)}"
        )
    if footprint.host_bytes > host.memory_gi_b * GIB:
        where = "this machine has" if plan.substrate.host_kind == "embedded" else "a host has"
        yield f"about {footprint.host_bytes / GIB:.1f} GiB are needed at once, {where} {host.memory_gi_b:g} GiB"
    limit = parse_milli(plan.substrate.kwok_pod.limits.memory) / 1000
    if footprint.apiserver_bytes > limit and plan.substrate.host_kind != "embedded":
        yield (
            f"an apiserver container is predicted to take {footprint.apiserver_bytes / GIB:.1f} GiB, "
            f"kwokPod.limits.memory is {plan.substrate.kwok_pod.limits.memory}"
        )
    if footprint.lease_writes_per_sec > footprint.work_writes_per_sec:
        yield (
            f"more lease traffic than work: leases cause {footprint.lease_writes_per_sec:.0f} writes/s, "
            f"the churn {footprint.work_writes_per_sec:.0f}; set cluster.nodeLeaseSeconds to 0"
        )
    for what, at_seconds in plan.demand_events:
        if at_seconds >= plan.soak_seconds:
            yield f"{what} at {at_seconds:g} s never happens: the soak ends after {format_duration(plan.soak_seconds)}"
        elif at_seconds > plan.soak_seconds - plan.window_seconds > 0:
            window = format_duration(plan.window_seconds)
            yield f"{what} at {at_seconds:g} s falls into the last {window} of the soak, which the gates judge"
    if plan.profile.load_profile.settle_seconds >= plan.soak_seconds > 0:
        yield "settleSeconds is not shorter than the soak: reclaims are counted from the soak's start"
    if geometry.kwok_clusters > DRAWN_CLUSTERS_MAX:
        yield f"counts are stretched from {DRAWN_CLUSTERS_MAX} drawn clusters to {geometry.kwok_clusters}"

"""What can be said against a plan before anything is started: refusals, and warnings (rung 0.5, ADR-10)."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from bigfleet.core.quantity import parse_milli
from scaletest.errors import UsageError
from scaletest.judge.gates.listing import all_gates
from scaletest.judge.gates.windows import MEANING, soak_window
from scaletest.model.counting import counted
from scaletest.model.demand.capacity import Shortage, find_shortage, serves
from scaletest.model.demand.needs import burst_machines
from scaletest.model.demand.sizing import allocate_machines, largest_remainder
from scaletest.model.documents.durations import format_duration
from scaletest.model.documents.profile import PRIORITY_CLASSES
from scaletest.model.footprint import GIB, MEASURED_PODS_PER_CORE, Footprint
from scaletest.model.plan import Plan
from scaletest.run.steps.guard import Caps, beyond_caps

# A partition is held this long (docs/reference/harness.md#faults).
_PARTITION_SECONDS = 60


def refuse(refusals: Sequence[UsageError]) -> None:
    """Raises one UsageError for all of them, if there are any."""
    if refusals:
        message = "\n".join(refusal.message for refusal in refusals)
        hints = dict.fromkeys(refusal.hint for refusal in refusals if refusal.hint)
        said = [hint for hint in hints if not any(hint != other and hint in other for other in hints)]
        raise UsageError(message, hint="; ".join(said))


def refusals_of_run(plan: Plan, caps: Caps) -> list[UsageError]:
    """Every reason why a run of this plan is not begun today, with these caps."""
    return [*refusals_of(plan), *not_built(plan), *beyond_caps(plan, caps)]


def refusals_of(plan: Plan) -> list[UsageError]:
    """Every reason why no run of this plan could come to a verdict."""
    if not plan.pods:
        return [UsageError("nothing is asked for: no workload of the catalog fits into a cluster", hint=_GANG_HINT)]
    return [
        *_gangs_too_large(plan),
        *_too_little_room(plan),
        *_faults_that_miss(plan),
        *_shortages(plan),
        *_blind(plan),
    ]


_GANG_HINT = "lower groupSizeRange, or give clusters more Pods (cluster.podsPerCluster, topology.kwokClusters)"


def _gangs_too_large(plan: Plan) -> Iterator[UsageError]:
    """A gang that fits into no cluster would drop out of the test in silence."""
    for archetype in plan.catalog.demand:
        if archetype.burst_only or archetype.gang is None:
            continue
        smallest = archetype.gang.group_size_range[0]
        if smallest > plan.geometry.pods_per_cluster:
            yield UsageError(
                f"the smallest gang of {archetype.name} has {counted(smallest, 'Pod')}, "
                f"a cluster {plan.geometry.pods_per_cluster:,}",
                hint=_GANG_HINT,
            )


def too_little_memory(plan: Plan, footprint: Footprint) -> Iterator[UsageError]:
    """What this machine cannot hold; `up` may ask for another size than the plan's."""
    host = plan.host
    if plan.substrate.host_kind == "embedded" and footprint.host_bytes > host.memory_gi_b * GIB:
        yield UsageError(
            f"about {footprint.host_bytes / GIB:,.1f} GiB are needed at once, "
            f"this machine has {host.memory_gi_b:g} GiB",
            hint="choose a smaller profile, fewer clusters (topology.kwokClusters), or another substrate",
        )


def _too_little_room(plan: Plan) -> Iterator[UsageError]:
    """What this machine cannot hold, or cannot reach in the time that settling has."""
    yield from too_little_memory(plan, plan.footprint)
    settle = next(phase for phase in plan.phases if phase.name == "settle")
    if settle.predicted_seconds and settle.predicted_seconds > settle.budget_seconds:
        yield UsageError(
            f"settling is predicted to take {format_duration(settle.predicted_seconds)}, "
            f"its budget is {format_duration(settle.budget_seconds)}",
            hint="raise rampBudget, spread the Pods over more clusters, or pre-bind them (seed.preBind)",
        )


def _faults_that_miss(plan: Plan) -> Iterator[UsageError]:
    for action in plan.profile.runner_actions:
        if action.at_seconds >= plan.soak_seconds:
            yield UsageError(
                f"runnerActions: {action.action} fires at {action.at_seconds:g} s, "
                f"after the soak of {format_duration(plan.soak_seconds)}",
                hint="make --duration longer",
            )
        if action.shard and int(action.shard.rpartition("-")[2]) >= plan.geometry.shards:
            yield UsageError(
                f"runnerActions: {action.action}: there is no {action.shard}, shards: {plan.geometry.shards}",
                hint="set topology.shardReplicas",
            )


def _blind(plan: Plan) -> Iterator[UsageError]:
    """Gates that would end in no-data, because the window brings too few observations."""
    least = plan.profile.slo.min_observations
    told: set[str] = set()
    soak, window = soak_window(plan, 0, plan.soak_seconds), min(plan.soak_seconds, plan.window_seconds)
    for gate in all_gates(plan):
        if gate.cause is None or gate.skip or gate.cause in told:
            continue
        seconds = min(window, sum(stretch.seconds for stretch in soak.stretches(gate.window)))
        count = int(plan.expected[gate.cause] * seconds / window) if window else 0
        if count >= least:
            continue
        told.add(gate.cause)
        more = [_MORE[gate.cause]] if gate.cause in _MORE else []
        if plan.window_seconds >= plan.soak_seconds and seconds == window:
            more.insert(0, "make --duration longer")
        which = f"the last {format_duration(window)} of the soak" if seconds == window else MEANING[gate.window]
        bring = "bring" if seconds == window else "brings"
        yield UsageError(
            f"{which} {bring} about {counted(count, gate.cause.removesuffix('s'))}; the gate {gate.key} needs {least}",
            hint=", or ".join(more),
        )


_MORE = {
    "replacements": "raise shard.failureRatePerSec, or switch the gate off with null",
    "node states": "raise shard.failureRatePerSec, or switch the gate off with null",
    "rebinds": "raise loadProfile.churnPerMinute",
}


def _shortages(plan: Plan) -> Iterator[UsageError]:
    """The seeds must be able to cover the demand, or, where a profile is about scarcity, must not."""
    slo = plan.profile.slo
    if slo.expect_standing_shortfall:
        yield from _wrong_shortfall(plan)
        return
    extra = Counter() if slo.expect_preemptions else Counter(plan.demand.burst_machines)
    if short := shortage(plan, extra):
        yield _never(plan, short)
    elif gang := _homeless_gang(plan):
        yield UsageError(gang, hint="raise seed.speculativeMultiplier or make the gang smaller")
    elif slo.expect_preemptions and not _bursts_must_preempt(plan):
        yield UsageError(
            "slo.expectPreemptions: free machines cover the bursts too, so nothing has to be preempted",
            hint="lower seed.speculativeCount, or raise the burst's extraTarget",
        )


def _wrong_shortfall(plan: Plan) -> Iterator[UsageError]:
    """Something must be short, and where it is confined to a class, nothing above that class."""
    if shortage(plan, Counter()) is None:
        yield UsageError(
            "slo.expectStandingShortfall: the seeded machines cover all that is asked for, nothing will be short",
            hint="lower the seed block, or raise loadProfile.openLoopDemandMultiplier",
        )
    confined = plan.profile.slo.shortfall_confined_below
    if confined:
        important = {a.name for a in plan.catalog.demand if min(a.priority_classes) > PRIORITY_CLASSES[confined]}
        if short := shortage(plan, Counter(), only=important):
            yield _never(plan, short, f" above {confined}, to which slo.shortfallConfinedBelow confines what is short")


def _never(plan: Plan, short: Shortage, note: str = "") -> UsageError:
    names = short.archetypes
    steady = sum(plan.demand.machines.get(name, 0) for name in names)
    more = short.asked_machines - steady
    also = f" and {more:,} more to replace those that are lost, or for what comes on top" if more > 0 else ""
    density = plan.profile.scale.density
    served = any(serves(kind, plan.catalog[name], density) for kind in plan.catalog.seeded for name in names)
    hint = "raise seed.speculativeMultiplier (or speculativeCount), idleHeadroomFraction or configuredFraction"
    return UsageError(
        f"the seeded machines can never satisfy the demand{note}: {' and '.join(names)} "
        f"{'needs' if len(names) == 1 else 'need'} {counted(steady, 'machine')}{also}; "
        f"{short.missing_machines:,} of that shape are missing",
        hint=hint if served else "no seeded machine serves it: compare instanceTypes, zones, sizes and labelAxes",
    )


def _bursts_must_preempt(plan: Plan) -> bool:
    """Whether some burst within the soak finds too few free machines when it comes."""
    density, clusters = plan.profile.scale.density, plan.geometry.kwok_clusters
    for burst in plan.profile.load_profile.bursts:
        if burst.at_seconds >= plan.soak_seconds:
            continue
        extra = burst_machines([burst], plan.catalog.by_name, range(clusters), density)
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
            return f"a gang of {name} needs {counted(machines, 'machine')} in one {domain}, {held:,} are seeded"
    return ""


def not_built(plan: Plan) -> Iterator[UsageError]:
    """A refusal for what a profile or substrate may say, but a run does not do yet."""
    if missing := parts_not_built(plan):
        yield UsageError(f"not built yet: {', '.join(missing)}", hint="try `dev-50` on `embedded`, which runs today")


def parts_not_built(plan: Plan) -> list[str]:
    """What is asked for and not built yet."""
    asked = {
        "runnerActions": bool(plan.profile.runner_actions),
        "cluster.storage kine": plan.substrate.cluster.storage == "kine",
    }
    return [name for name, wanted in asked.items() if wanted]


def warnings_of(plan: Plan) -> Iterator[str]:
    """What may go wrong, in plain words; nothing here stops a run."""
    yield from _warn_of_the_hosts(plan)
    yield from _warn_of_events(plan)
    clusters, drawn = plan.geometry.kwok_clusters, plan.demand.clusters_drawn
    if clusters > drawn:
        yield f"only {drawn} of the {clusters:,} clusters were drawn for this plan; its counts are scaled up from them"


def _warn_of_the_hosts(plan: Plan) -> Iterator[str]:
    geometry, footprint, host, cluster = plan.geometry, plan.footprint, plan.host, plan.substrate.cluster
    if not geometry.ramp_feasible and plan.profile.seed.bound_at_start < 1:
        yield (
            f"the ramp asks for {geometry.ramp_demand_pods_per_sec:,.1f} Pods/s, "
            f"the clusters bind {geometry.ramp_supply_pods_per_sec:,.1f}: "
            f"the fill takes {format_duration(geometry.total_pods / geometry.ramp_supply_pods_per_sec)} "
            f"instead of {format_duration(plan.profile.load_profile.ramp_seconds)}"
        )
    for phase in plan.phases:
        if phase.name == "install" and phase.predicted_seconds and phase.predicted_seconds > phase.budget_seconds:
            yield (
                f"the install is predicted to take {format_duration(phase.predicted_seconds)}, "
                f"it is given up after {format_duration(phase.budget_seconds)}"
            )
    if plan.substrate.host_kind == "embedded" and plan.pods > host.v_cpu * MEASURED_PODS_PER_CORE:
        yield (
            f"{plan.pods:,} Pods on {counted(host.v_cpu, 'core')} are {plan.pods // host.v_cpu:,} a core; "
            f"{MEASURED_PODS_PER_CORE:,} a core have passed, ten times as many made the verdict void (docs/results.md)"
        )
    if plan.substrate.host_kind != "embedded":
        side_by_side = min(geometry.kwok_clusters, cluster.clusters_per_host)
        requests, limits = plan.substrate.kwok_pod.requests, plan.substrate.kwok_pod.limits
        cpu = 2 * side_by_side * parse_milli(requests.cpu) / 1000
        memory = 2 * side_by_side * parse_milli(requests.memory) / 1000
        if cpu > host.v_cpu or memory > host.memory_gi_b * GIB:
            yield (
                f"{counted(side_by_side, 'cluster')} on a host request {cpu:,.0f} cores and {memory / GIB:,.0f} GiB "
                f"(two containers each), a host has {host.v_cpu} and {host.memory_gi_b:g}"
            )
        if footprint.host_bytes > host.memory_gi_b * GIB:
            yield (
                f"about {footprint.host_bytes / GIB:,.1f} GiB are needed on the fullest host, "
                f"a host has {host.memory_gi_b:g} GiB"
            )
        if footprint.apiserver_bytes > parse_milli(limits.memory) / 1000:
            yield (
                f"an apiserver container is predicted to take {footprint.apiserver_bytes / GIB:.1f} GiB, "
                f"kwokPod.limits.memory is {limits.memory}"
            )
    if footprint.lease_writes_per_sec > footprint.work_writes_per_sec:
        yield (
            f"more lease traffic than work: leases cause {footprint.lease_writes_per_sec:,.0f} writes/s, "
            f"the churn {footprint.work_writes_per_sec:,.0f}; set cluster.nodeLeaseSeconds to 0"
        )
    if geometry.shards > geometry.kwok_clusters:
        clusters = counted(geometry.kwok_clusters, "cluster")
        yield f"{geometry.shards} shards for {clusters}: some shards will have nothing to do"


def _warn_of_events(plan: Plan) -> Iterator[str]:
    for move in plan.moves_left_out:
        yield f"{move} is left out: its window of {move.within_seconds:g} s does not fit into the soak"
    judged = {move.at_seconds for move in plan.moves}
    for what, at_seconds in plan.demand_events:
        if at_seconds in judged:
            continue
        if at_seconds >= plan.soak_seconds:
            yield f"{what} at {at_seconds:g} s never happens: the soak ends after {format_duration(plan.soak_seconds)}"
        elif at_seconds > plan.soak_seconds - plan.window_seconds > 0:
            window = format_duration(plan.window_seconds)
            yield f"{what} at {at_seconds:g} s falls into the last {window} of the soak, which the gates judge"
    for action in plan.profile.runner_actions:
        if "leader" in action.action and plan.geometry.coordinators == 1:
            yield "kill-coordinator-leader with one coordinator is a restart, not an election: coordinatorReplicas: 3"
        if "partition" in action.action and action.at_seconds + _PARTITION_SECONDS > plan.soak_seconds:
            yield f"{action.action} at {action.at_seconds:g} s is not over when the soak ends"
    if plan.profile.load_profile.settle_seconds >= plan.soak_seconds > 0:
        yield "settleSeconds is not shorter than the soak: reclaims are counted from the soak's start"

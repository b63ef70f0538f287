"""Simulates a plan: settles and soaks a virtual fleet, and predicts what a run would show against its bars."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bigfleet.core import penalty
from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine import ActionKind
from bigfleet.sim.world.recorder import Recorder
from bigfleet.sim.world.simulation import Simulation
from scaletest.errors import NotSteady
from scaletest.judge.gates.gate import GateRecord, Reading, judge
from scaletest.judge.gates.listing import RECLAIM_QUIET_SECONDS, all_gates
from scaletest.judge.gates.windows import SoakWindow, soak_window
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from scaletest.model.plan import Plan
from scaletest.run.offline.simulated_moves import MovesWatch
from scaletest.run.offline.virtual_fleet import start_soak, virtual_fleet
from scaletest.run.steps.steadiness import POLL_SECONDS, Poll, Steadiness

_TICK_SECONDS = 5
# Scrapes come when they come. In virtual time all else happens at round times, so at a round one they would always meet
# the Pods that are just being replaced.
_SCRAPE_PHASE_SECONDS = 0.09
_SCRAPES_IN_A_ROW = 3
# Hears how far it is: (phase, virtual seconds done, in all).
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Activity:
    """What was done in one phase."""

    bootstraps: int
    provisions: int
    reclaims: int
    preempts: int
    deletes: int


@dataclass(frozen=True)
class Prediction:
    """What a run of the plan would show. Times are in virtual seconds."""

    # From the moment at which the demand exists, the three quiet polls included.
    steady_after_seconds: float
    settle: Activity
    soak: Activity
    machines_lost: int
    # When the counting of reclaims would begin, from soak start; None: reclaims never pause.
    reclaims_counted_from_seconds: float | None
    shortfalls_most: int
    pods: int
    pods_bound: int
    cycles: int
    states: dict[str, int]
    # Gates that a simulation can judge; it knows nothing of apiservers, disks and cores.
    gates: tuple[GateRecord, ...]
    left_out: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return all(gate.verdict in ("pass", "skipped") for gate in self.gates)


def simulate(plan: Plan, progress: Progress = lambda _phase, _done, _all: None) -> Prediction:
    """Run the plan in virtual time; raises NotSteady if it would not settle within its budget."""
    budget = plan.ramp_budget_seconds
    simulation = virtual_fleet(plan, budget + plan.soak_seconds)
    simulation.prepare()
    for cluster in simulation.clusters.values():
        if plan.profile.seed.bound_at_start > 0:
            # With preBind the load-driver places the fill itself, on the machines that were seeded for it.
            cluster.fill(ARCHETYPE_LABEL)
        else:
            cluster.bind()
    simulation.start()
    _settle(simulation, plan, progress)
    return _soak(simulation, plan, progress)


def _settle(simulation: Simulation, plan: Plan, progress: Progress) -> None:
    scarce = plan.profile.slo.expect_standing_shortfall
    state = Steadiness(plan.geometry.kwok_clusters, plan.pods, scarce=scarce)
    budget = plan.ramp_budget_seconds
    while not state.steady:
        simulation.timeline.run_until(simulation.timeline.now + POLL_SECONDS)
        state.observe(_poll(simulation))
        progress("settle", simulation.timeline.now, budget)
        if state.plateaued or simulation.timeline.now > budget:
            why = "the demand-side plateau" if state.plateaued else f"the ramp budget of {budget:g} s elapsed"
            raise NotSteady(f"the simulation is not steady: {why}: {state.why_not()}")


def _poll(simulation: Simulation) -> Poll:
    recorder, clusters = simulation.recorder, simulation.clusters.values()
    done = recorder.actions
    return Poll(
        clusters_ready=len(simulation.clusters),
        active=sum(cluster.pods for cluster in clusters),
        demand=sum(len(cluster.rollup()) for cluster in clusters),
        shortfalls=recorder.standing,
        acquisitions=done[ActionKind.BOOTSTRAP] + done[ActionKind.PROVISION],
        reclaims=done[ActionKind.RECLAIM],
        waiting=0,
        unfilled=0,
        bound=sum(cluster.bound for cluster in clusters),
    )


def _soak(simulation: Simulation, plan: Plan, progress: Progress) -> Prediction:
    recorder, shard = simulation.recorder, simulation.shard
    start = simulation.timeline.now
    end = start + plan.soak_seconds
    lost, outcomes, configured = simulation.provider.lost, shard.outcomes.copy(), len(shard.configure_seconds)
    start_soak(simulation, plan)
    least_alive = _poll(simulation).active or 0.0
    soak = soak_window(plan, start, end)
    moves = MovesWatch(simulation, soak) if plan.moves else None
    scrape = start + _SCRAPE_PHASE_SECONDS
    while (scrape := scrape + _TICK_SECONDS) < end:
        simulation.timeline.run_until(scrape)
        least_alive = min(least_alive, _poll(simulation).active or 0.0)
        if moves:
            moves.look()
        progress("soak", scrape - start, plan.soak_seconds)
    simulation.timeline.run_until(end)
    soak_outcomes = shard.outcomes - outcomes
    counted_from = _quiet_from(recorder, start + plan.reclaims_count_after_seconds, end)
    readings = {
        "loadgenPodsActive": Reading(least_alive),
        "shardConfigurePhaseP99Seconds": _p99(shard.configure_seconds[configured:]),
        "bootstrapSuccessRatio": _success(soak_outcomes),
        "shardShortfalls": Reading(_standing(recorder, max(start, end - plan.window_seconds), end, plan)),
        "preemptActions": Reading(recorder.actions[ActionKind.PREEMPT]),
        "reclaimActionsDuringSoak": _reclaims(recorder, counted_from, soak),
        "preemptionsAtSteadyDemand": Reading(recorder.between(ActionKind.PREEMPT, start, end)),
        **(moves.readings() if moves else {}),
        **_routing(simulation, plan),
    }
    gates = all_gates(plan)
    least = plan.profile.slo.min_observations
    judged = [judge(g, readings[g.key], plan.window_seconds, least) for g in gates if g.key in readings]
    clusters = simulation.clusters.values()
    return Prediction(
        steady_after_seconds=start,
        settle=_activity(recorder, -1.0, start),
        soak=_activity(recorder, start, end),
        machines_lost=simulation.provider.lost - lost,
        reclaims_counted_from_seconds=None if counted_from is None else counted_from - start,
        shortfalls_most=recorder.worst_shortfall(start, end),
        pods=sum(cluster.pods for cluster in clusters),
        pods_bound=sum(cluster.bound for cluster in clusters),
        cycles=shard.cycles,
        states={state.label: shard.states[state] for state in MachineState if shard.states[state]},
        gates=tuple(judged),
        left_out=tuple(gate.title for gate in gates if gate.key not in readings),
    )


def _activity(recorder: Recorder, start: float, end: float) -> Activity:
    def count(kind: ActionKind) -> int:
        return recorder.between(kind, start, end)

    return Activity(
        bootstraps=count(ActionKind.BOOTSTRAP),
        provisions=count(ActionKind.PROVISION),
        reclaims=count(ActionKind.RECLAIM),
        preempts=count(ActionKind.PREEMPT),
        deletes=count(ActionKind.DELETE),
    )


def _quiet_from(recorder: Recorder, earliest: float, end: float) -> float | None:
    """The first tick after so long without a reclaim, as a run looks for it."""
    now = earliest
    while now <= end:
        if not recorder.between(ActionKind.RECLAIM, now - RECLAIM_QUIET_SECONDS, now):
            return now
        now += _TICK_SECONDS
    return None


def _reclaims(recorder: Recorder, counted_from: float | None, soak: SoakWindow) -> Reading:
    if counted_from is None:
        late = recorder.between(ActionKind.RECLAIM, soak.end - RECLAIM_QUIET_SECONDS, soak.end)
        return Reading(late, problem=f"reclaims never paused for {RECLAIM_QUIET_SECONDS} s")
    steady = soak.stretches("steady")
    return Reading(sum(recorder.between(ActionKind.RECLAIM, max(counted_from, one.start), one.end) for one in steady))


def _standing(recorder: Recorder, start: float, end: float, plan: Plan) -> float:
    """Shortfalls at the end, or the most that stood on three scrapes in a row."""
    last = recorder.worst_shortfall(end, end)
    if last or plan.profile.slo.expect_standing_shortfall:
        return last
    scrapes = [
        recorder.worst_shortfall(start + tick * _TICK_SECONDS, start + tick * _TICK_SECONDS)
        for tick in range(int((end - start) / _TICK_SECONDS) + 1)
    ]
    runs = zip(*(scrapes[shift:] for shift in range(_SCRAPES_IN_A_ROW)), strict=False)
    return max((min(run) for run in runs), default=0)


def _p99(seconds: list[float]) -> Reading:
    if not seconds:
        return Reading(None, 0)
    ordered = sorted(seconds)
    return Reading(ordered[math.ceil(0.99 * len(ordered)) - 1], len(ordered))


def _success(outcomes: Counter[tuple[ActionKind, str]]) -> Reading:
    ended = sum(count for (kind, _), count in outcomes.items() if kind is ActionKind.BOOTSTRAP)
    return Reading(outcomes[ActionKind.BOOTSTRAP, "success"] / ended if ended else None, ended)


def _routing(simulation: Simulation, plan: Plan) -> dict[str, Reading]:
    """Machines of the two priced tiers, by whether they serve the workloads that they should."""
    slo = plan.profile.slo
    if not slo.expect_cost_routing:
        return {}
    buckets = {"Spot": slo.cost_routing_tolerant_bucket, "OnDemand": slo.cost_routing_sensitive_bucket}

    def bucket(machine: Machine) -> str:
        return penalty.label(penalty.bucket_of(machine.assignment.interruption_dollars))

    held = Counter(
        (machine.capacity_type.label, bucket(machine))
        for machine in simulation.shard.machines.values()
        if machine.state is MachineState.CONFIGURED
    )
    right = sum(held[tier, wanted] for tier, wanted in buckets.items() if wanted)
    wrong = held["Spot", buckets["OnDemand"] or ""] + held["OnDemand", buckets["Spot"] or ""]
    return {"costRoutingCorrect": Reading(right), "costRoutingMisrouted": Reading(wrong)}

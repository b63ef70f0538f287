"""What goes wrong on purpose: machines lost, supply gone, calls refused, shards and operators cut off."""

from collections.abc import Callable, Iterable

from bigfleet.core.machines import CapacityType, Machine
from bigfleet.engine import ActionKind
from bigfleet.provider.fake.losses import KNOWN_AFTER_SECONDS, Pacer
from bigfleet.sim.world.simulation import Simulation
from bigfleet.sim.world.timeline import Rank
from bigfleet.sim.world.workloads import poisson

_STEP_SECONDS = 1.0
_HOUR_SECONDS = 3600.0

Selection = Callable[[Machine], bool]


def everything(_machine: Machine) -> bool:
    return True


def _serving(simulation: Simulation, selected: Selection) -> list[str]:
    machines = simulation.provider.machines
    return sorted(machine_id for machine_id in simulation.provider.serving if selected(machines[machine_id]))


def lose_at(
    simulation: Simulation, when: float, *, share: float, number: int, vanish: bool, selected: Selection = everything
) -> None:
    """At once: a share of the machines that serve a cluster, or a number of them, break or vanish."""
    random = simulation.random(f"lose/{when:g}")
    simulation.struck.setdefault(when, 0)

    def strike() -> None:
        serving = _serving(simulation, selected)
        count = min(len(serving), number or round(share * len(serving)))
        simulation.struck[when] += count
        for machine_id in random.sample(serving, count):
            if vanish:
                simulation.provider.vanish(machine_id)
            else:
                simulation.provider.lose(machine_id, "lost in a fault storm")

    simulation.timeline.at(when, Rank.FAULT, strike)


def lose_steadily(simulation: Simulation, start: float, end: float, per_second: float) -> None:
    """Evenly spaced, `per_second` × the machines that serve a cluster, as the fake provider does in a soak."""
    random = simulation.random("losses")
    pacer = Pacer()

    def step() -> None:
        for _ in range(pacer.due(_STEP_SECONDS, per_second * len(simulation.provider.serving))):
            known_since = simulation.timeline.now - KNOWN_AFTER_SECONDS
            serving = sorted(one for one, since in simulation.provider.serving.items() if since <= known_since)
            if serving:
                simulation.provider.lose(random.choice(serving), "lost: failure injected")
        if simulation.timeline.now + _STEP_SECONDS <= end:
            simulation.timeline.after(_STEP_SECONDS, Rank.FAULT, step)

    if per_second > 0:
        simulation.timeline.at(start + _STEP_SECONDS, Rank.FAULT, step)


def interrupt_spot(simulation: Simulation, start: float, end: float, times: float) -> None:
    """Spot machines are taken back at `times` the hourly probability that they declare."""
    random, machines = simulation.random("spot"), simulation.provider.machines

    def spot() -> dict[str, float]:
        return {
            machine_id: machines[machine_id].interruption_probability
            for machine_id in _serving(simulation, lambda machine: machine.capacity_type is CapacityType.SPOT)
        }

    def rate() -> float:
        return times * sum(spot().values()) / _HOUR_SECONDS if start <= simulation.timeline.now < end else 0.0

    def take_one() -> None:
        rates = spot()
        if rates and simulation.timeline.now < end:
            victim = random.choices(list(rates), list(rates.values()))[0]
            simulation.provider.lose(victim, "interrupted: spot capacity was taken back")

    poisson(simulation, "spot-times", rate, take_one, start)


def refuse(
    simulation: Simulation,
    start: float,
    end: float,
    kinds: Iterable[ActionKind],
    reason: str,
    selected: Selection = everything,
) -> None:
    """The provider refuses some calls for a while: a stockout, a rate limit, an outage."""
    refused = frozenset(kinds)

    def rule(kind: ActionKind, machine: Machine) -> str:
        return reason if kind in refused and selected(machine) else ""

    simulation.timeline.at(start, Rank.FAULT, lambda: simulation.provider.refusals.append(rule))
    simulation.timeline.at(end, Rank.FAULT, lambda: simulation.provider.refusals.remove(rule))


def restart_shard(simulation: Simulation, when: float) -> None:
    simulation.timeline.at(when, Rank.FAULT, simulation.shard.restart)


def partition(simulation: Simulation, cluster: str, start: float, end: float) -> None:
    """No roll-up of a cluster arrives for a while."""

    def cut(partitioned: bool) -> None:
        simulation.clusters[cluster].partitioned = partitioned

    simulation.timeline.at(start, Rank.FAULT, lambda: cut(True))
    simulation.timeline.at(end, Rank.FAULT, lambda: cut(False))


def empty_rollup(simulation: Simulation, cluster: str, when: float) -> None:
    """One roll-up that says, wrongly, that nothing is needed."""

    def send() -> None:
        simulation.shard.receive(cluster, [])

    simulation.timeline.at(when, Rank.ROLLUP, send)

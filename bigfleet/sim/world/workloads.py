"""Demand that moves: churn, ramps, steps, Poisson arrivals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from bigfleet.scheduling.pods import PodClass
from bigfleet.sim.world.cluster import Cluster
from bigfleet.sim.world.simulation import Simulation
from bigfleet.sim.world.timeline import Rank

# A process with nothing to do looks again after so long.
_IDLE_SECONDS = 10.0


def poisson(
    simulation: Simulation, purpose: str, per_second: Callable[[], float], event: Callable[[], None], start: float = 0.0
) -> None:
    """Events at random times, at a rate that may change, from `start` to the end of the run."""
    random = simulation.random(purpose)
    timeline = simulation.timeline

    def arrange() -> None:
        rate = per_second()
        if rate > 0:
            timeline.after(random.expovariate(rate), Rank.WORKLOAD, happen)
        else:
            timeline.after(_IDLE_SECONDS, Rank.WORKLOAD, arrange)

    def happen() -> None:
        event()
        arrange()

    timeline.at(start, Rank.WORKLOAD, arrange)


def churn(simulation: Simulation, cluster: Cluster, per_minute: float, prefix: str = "", start: float = 0.0) -> None:
    """A share of the Pods (of workloads with a prefix) is replaced each minute, one by one."""
    random = simulation.random(f"churn/{cluster.name}/{prefix}")

    def rate() -> float:
        return per_minute / 60 * cluster.places(prefix)

    poisson(simulation, f"churn-times/{cluster.name}/{prefix}", rate, lambda: cluster.delete_pod(random, prefix), start)


def step(simulation: Simulation, cluster: Cluster, name: str, when: float, replicas: int) -> None:
    """A new number of replicas at a time."""

    def change() -> None:
        cluster.scale(name, replicas)
        cluster.bind()

    simulation.timeline.at(when, Rank.WORKLOAD, change)


def ramp(simulation: Simulation, cluster: Cluster, name: str, start: float, end: float, first: int, last: int) -> None:
    """From one number of replicas to another, Pod by Pod, evenly over the time."""
    direction = 1 if last > first else -1
    for done in range(1, abs(last - first) + 1):
        when = start + (end - start) * done / abs(last - first)
        step(simulation, cluster, name, when, first + direction * done)


@dataclass(frozen=True)
class Jobs:
    """Work that arrives by chance, runs for a while and ends."""

    per_second: float
    mean_lifetime_seconds: float
    replicas: tuple[int, int]
    # One class for each priority of the mix, with its weight.
    classes: Sequence[tuple[float, Callable[[str], PodClass]]]


def arrive(simulation: Simulation, cluster: Cluster, name: str, jobs: Jobs) -> None:
    """Jobs come to a cluster as a Poisson process."""
    random = simulation.random(f"jobs/{cluster.name}/{name}")
    serial = count()

    def one() -> None:
        job = f"{name}-{next(serial)}"
        make = random.choices([make for _, make in jobs.classes], [weight for weight, _ in jobs.classes])[0]
        cluster.create(job, make(job), random.randint(*jobs.replicas))
        cluster.bind()
        life = random.expovariate(1 / jobs.mean_lifetime_seconds)
        simulation.timeline.after(life, Rank.WORKLOAD, lambda: cluster.delete(job))

    poisson(simulation, f"job-times/{cluster.name}/{name}", lambda: jobs.per_second, one)

"""What moves one cluster's demand during the soak: bursts, sheds and steps, as one schedule of (load profile, ordinal).

The load-driver carries it out and the simulator plays it, so a prediction is about the very workloads of the run.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scaletest.model.catalog import Archetype
from scaletest.model.draw import Workload, cluster_id, draw_demand, takes_part
from scaletest.model.loadprofile import LoadProfile
from scaletest.model.profile import Burst


@dataclass(frozen=True)
class Happening:
    """At an offset from soak start some workloads come and others go."""

    at_seconds: float
    what: str
    created: tuple[Workload, ...] = ()
    deleted: tuple[Workload, ...] = ()


def happenings(load: LoadProfile, ordinal: int) -> list[Happening]:
    """Everything that happens to a cluster's demand by plan, in order."""
    bursts = (one for burst in load.bursts if takes_part(burst, ordinal) for one in _burst(load, burst, ordinal))
    return sorted([*_levels(load, ordinal), *bursts], key=lambda one: one.at_seconds)


def surplus(load: LoadProfile, ordinal: int) -> list[Workload]:
    """What an open loop asks for beyond the target: demand that nothing was seeded for."""
    return _more(load, ordinal, load.open_loop_demand_multiplier, "surplus")


def _more(load: LoadProfile, ordinal: int, level: float, stream: str) -> list[Workload]:
    pods = round(load.target * (level - 1))
    return list(draw_demand(load.archetypes, pods, load.seed, ordinal, stream).workloads()) if pods > 0 else []


def _levels(load: LoadProfile, ordinal: int) -> Iterator[Happening]:
    steps = [(down.at_seconds, down.target_multiplier) for down in load.scale_downs]
    steps += [(step.at_seconds, step.target_multiplier) for step in load.demand_steps]
    if not steps:
        return
    drawn = list(draw_demand(load.archetypes, load.target, load.seed, ordinal).workloads())
    here = {workload.name: workload for workload in drawn}
    for at_seconds, level in sorted(steps):
        wanted = {workload.name: workload for workload in _at_level(load, ordinal, drawn, level)}
        yield Happening(
            at_seconds,
            f"demand at {level:.0%}",
            created=tuple(one for name, one in wanted.items() if name not in here),
            deleted=tuple(one for name, one in here.items() if name not in wanted),
        )
        here = wanted


def _at_level(load: LoadProfile, ordinal: int, drawn: Sequence[Workload], level: float) -> list[Workload]:
    """Downwards the largest workloads go first, as long as the level is not undershot; upwards more are drawn."""
    if level >= 1:
        return [*drawn, *_more(load, ordinal, level, f"at-{level:g}".replace(".", "-"))]
    surplus_pods = sum(workload.replicas for workload in drawn) - round(load.target * level)
    gone: set[str] = set()
    for workload in sorted(drawn, key=lambda one: (-one.replicas, one.name)):
        if workload.replicas <= surplus_pods:
            surplus_pods -= workload.replicas
            gone.add(workload.name)
    return [workload for workload in drawn if workload.name not in gone]


def _burst(load: LoadProfile, burst: Burst, ordinal: int) -> Iterator[Happening]:
    archetype = next(one for one in load.archetypes if one.name == burst.archetype)
    workloads = tuple(_burst_workloads(load, burst, archetype, ordinal))
    yield Happening(burst.at_seconds, f"burst of {archetype.name} begins", created=workloads)
    if burst.duration_seconds:
        ends = burst.at_seconds + burst.duration_seconds
        yield Happening(ends, f"burst of {archetype.name} ends", deleted=workloads)


def _burst_workloads(load: LoadProfile, burst: Burst, archetype: Archetype, ordinal: int) -> Iterator[Workload]:
    """`extraTarget` whole gangs, or one workload of that many Pods; never cut to a target."""
    drawn = random.Random(f"burst/{load.seed}/{ordinal}/{burst.at_seconds:g}/{archetype.name}")
    prefix = f"{cluster_id(ordinal)}-{archetype.name}-burst-{burst.at_seconds:g}"
    for index in range(burst.extra_target if archetype.gang else 1):
        name = f"{prefix}-{index}"
        yield Workload(
            name=name,
            archetype=archetype,
            replicas=drawn.randint(*archetype.gang.group_size_range) if archetype.gang else burst.extra_target,
            size=drawn.choices(archetype.pod_sizes, [size.weight for size in archetype.pod_sizes])[0],
            priority=drawn.choice(archetype.priority_classes),
            has_spread=drawn.random() < (archetype.spread.probability if archetype.spread else 0.0),
            group=name if archetype.gang else "",
            axes=tuple(drawn.randrange(axis.count) for axis in archetype.label_axes),
        )

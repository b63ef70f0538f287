"""What moves one cluster's demand during the soak: bursts, sheds and steps, as one schedule of (load profile, ordinal).

The load-driver carries it out and the simulator plays it, so a prediction is about the very workloads of the run.
"""

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaletest.model.demand.draw import Ints, Numbers, Workload, cluster_id, draw_demand, takes_part
from scaletest.model.documents.catalog import Archetype
from scaletest.model.documents.loadprofile import LoadProfile
from scaletest.model.documents.profile import Burst

BEFORE_THE_SOAK = -math.inf


@dataclass(frozen=True)
class Happening:
    """At an offset from soak start some workloads come and others go."""

    at_seconds: float
    what: str
    created: tuple[Workload, ...] = ()
    deleted: tuple[Workload, ...] = ()


class Course:
    """What one cluster is asked for at every moment, so that a restarted load-driver knows what is due now."""

    def __init__(self, load: LoadProfile, ordinal: int) -> None:
        self.fill = _fill(load, ordinal)
        self.surplus = surplus(load, ordinal)
        self.happenings = happenings(load, ordinal)
        here = {workload.name: workload for workload in (*self.fill, *self.surplus)}
        # Every workload that there is at any time.
        self.all = dict(here)
        self._times = [BEFORE_THE_SOAK]
        self._due: list[Mapping[str, Workload]] = [here]
        for happening in self.happenings:
            gone = {workload.name for workload in happening.deleted}
            created = {workload.name: workload for workload in happening.created}
            here = {name: workload for name, workload in here.items() if name not in gone} | created
            self.all |= created
            self._times.append(happening.at_seconds)
            self._due.append(here)
        self._pods = [_pods_by_archetype(due.values()) for due in self._due]

    def due(self, at_seconds: float) -> Mapping[str, Workload]:
        """By name, what should be there so long after soak start. What came and went before is left out."""
        return self._due[self._period(at_seconds)]

    def pods_due(self, archetype: str, at_seconds: Numbers) -> Ints:
        """Pods of one archetype that should be there at each of these moments."""
        pods = np.array([counts[archetype] for counts in self._pods], np.int64)
        found: Ints = pods[np.searchsorted(self._times, at_seconds, side="right") - 1]
        return found

    def all_pods_due(self, at_seconds: float) -> int:
        """Pods of all archetypes that should be there then."""
        return self._pods[self._period(at_seconds)].total()

    def _period(self, at_seconds: float) -> int:
        return bisect_right(self._times, at_seconds) - 1


def _pods_by_archetype(workloads: Iterable[Workload]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for workload in workloads:
        counts[workload.archetype.name] += workload.replicas
    return counts


def happenings(load: LoadProfile, ordinal: int) -> list[Happening]:
    """Everything that happens to a cluster's demand by plan, in order."""
    bursts = (one for burst in load.bursts if takes_part(burst, ordinal) for one in _burst(load, burst, ordinal))
    return sorted([*_levels(load, ordinal), *bursts], key=lambda one: one.at_seconds)


def surplus(load: LoadProfile, ordinal: int) -> list[Workload]:
    """What an open loop asks for beyond the target: demand that nothing was seeded for."""
    return _more(load, ordinal, round(load.target * (load.open_loop_demand_multiplier - 1)), "surplus")


def _fill(load: LoadProfile, ordinal: int) -> list[Workload]:
    return list(draw_demand(load.archetypes, load.target, load.seed, ordinal).workloads())


def _more(load: LoadProfile, ordinal: int, pods: int, stream: str) -> list[Workload]:
    return list(draw_demand(load.archetypes, pods, load.seed, ordinal, stream).workloads()) if pods > 0 else []


def _levels(load: LoadProfile, ordinal: int) -> Iterator[Happening]:
    steps = [(down.at_seconds, down.target_multiplier) for down in load.scale_downs]
    steps += [(step.at_seconds, step.target_multiplier) for step in load.demand_steps]
    if not steps:
        return
    before = [*_fill(load, ordinal), *surplus(load, ordinal)]
    here = {workload.name: workload for workload in before}
    for at_seconds, level in sorted(steps):
        wanted = {workload.name: workload for workload in _at_level(load, ordinal, before, level)}
        yield Happening(
            at_seconds,
            f"demand at {level:.0%}",
            created=tuple(one for name, one in wanted.items() if name not in here),
            deleted=tuple(one for name, one in here.items() if name not in wanted),
        )
        here = wanted


def _at_level(load: LoadProfile, ordinal: int, before: Sequence[Workload], level: float) -> list[Workload]:
    """Of what there was before the soak the largest go first, until the level is not exceeded; upwards more are drawn.

    The last one to go is the smallest that does: a workload of hundreds would take the demand far below the level.
    """
    too_many = sum(workload.replicas for workload in before) - round(load.target * level)
    if too_many <= 0:
        return [*before, *_more(load, ordinal, -too_many, f"at-{level:g}".replace(".", "-"))]
    kept: list[Workload] = []
    for workload in sorted(before, key=lambda one: (-one.replicas, one.name)):
        if workload.replicas <= too_many:
            too_many -= workload.replicas
        else:
            kept.append(workload)
    if too_many:
        kept.pop()
    names = {workload.name for workload in kept}
    return [workload for workload in before if workload.name in names]


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

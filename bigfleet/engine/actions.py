"""A cycle's actions as arrays: an object is made of each only when one is read (docs/reference/engine.md#actions)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.core.victims import LONGEST_GRACE_SECONDS, drain_grace_seconds, priority_gap
from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.columns.growing import Ints
from bigfleet.engine.decisions import Action, ActionKind
from bigfleet.engine.lazy import Lazy
from bigfleet.engine.phases.acquisition import Short
from bigfleet.engine.phases.preemption import Preemption
from bigfleet.engine.phases.reclaiming import Reclaims

Starts = NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class _Ids:
    """The ids of some machines, wherever their rows go later."""

    arena: bytearray
    offsets: Starts
    lengths: Starts

    @classmethod
    def of(cls, fleet: Fleet, machines: Ints) -> "_Ids":
        texts = fleet.ids.texts
        offsets, lengths = (np.frombuffer(column, np.uint32) for column in (texts.offsets, texts.lengths))
        return cls(texts.arena, offsets[machines], lengths[machines])

    def __iter__(self) -> Iterator[str]:
        for offset, length in zip(self.offsets.tolist(), self.lengths.tolist(), strict=True):
            yield self.arena[offset : offset + length].decode("utf-8", "surrogatepass")


def actions(fleet: Fleet, short: Short, preemption: Preemption, reclaims: Reclaims, releases: Ints) -> Sequence[Action]:
    """All of them in phase order: Bootstrap and Provision, Preempt, Reclaim, Delete."""
    parts: list[Callable[[], Iterator[Action]]] = []
    count = len(short.machines) + len(preemption.victims) + len(reclaims.machines) + len(releases)
    if len(short.machines):
        parts.append(_Acquired(fleet, short).make)
    if len(preemption.victims):
        parts.append(_Preempted(fleet, short, preemption).make)
    if len(reclaims.machines):
        ids, clusters = _Ids.of(fleet, reclaims.machines), reclaims.clusters.tolist()
        names = fleet.clusters.texts
        parts.append(lambda: (_reclaim(id_, names[cluster]) for id_, cluster in zip(ids, clusters, strict=True)))
    if len(releases):
        gone = _Ids.of(fleet, releases)
        parts.append(lambda: (Action(ActionKind.DELETE, id_, "", "phase3.release") for id_ in gone))
    return Lazy(count, lambda: [action for part in parts for action in part()])


def _reclaim(machine_id: str, cluster: str) -> Action:
    return Action(ActionKind.RECLAIM, machine_id, cluster, "phase3.excess", grace_seconds=LONGEST_GRACE_SECONDS)


class _Acquired:
    """Bootstraps and Provisions, row by row."""

    def __init__(self, fleet: Fleet, short: Short) -> None:
        self._fleet = fleet
        self._short = short
        self._ids = _Ids.of(fleet, short.machines)

    def make(self) -> Iterator[Action]:
        short, ids = self._short, iter(self._ids)
        for number in np.flatnonzero(short.bootstraps + short.provisions).tolist():
            arrangement = short.arrangements[number]
            profile = short.profile(self._fleet, number)
            group = arrangement.block.group(arrangement, int(short.rows[number]))
            cluster = arrangement.block.cluster
            for kind, count in (
                (ActionKind.BOOTSTRAP, int(short.bootstraps[number])),
                (ActionKind.PROVISION, int(short.provisions[number])),
            ):
                for _ in range(count):
                    yield Action(kind, next(ids), cluster, "phase1", profile=profile, group=group)


class _Preempted:
    """Preempts, the most important need's first."""

    def __init__(self, fleet: Fleet, short: Short, preemption: Preemption) -> None:
        self._ids = _Ids.of(fleet, preemption.victims)
        self._clusters = [fleet.clusters.texts[c] for c in fleet.cluster_of[preemption.victims].tolist()]
        self._assigned = [fleet.terms[terms][0] for terms in fleet.terms_of[preemption.victims].tolist()]
        self._priorities = short.priorities[preemption.takers].tolist()

    def make(self) -> Iterator[Action]:
        for machine_id, cluster, assigned, priority in zip(
            self._ids, self._clusters, self._assigned, self._priorities, strict=True
        ):
            yield Action(
                ActionKind.PREEMPT,
                machine_id,
                cluster,
                "phase2.inversion",
                grace_seconds=drain_grace_seconds(priority_gap(priority, assigned)),
                preemptor_priority=priority,
            )

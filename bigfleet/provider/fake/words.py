"""The provider's word to each cluster: which machines it was given, and what they are."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from bigfleet.api.v1alpha1 import phonehome_pb2 as pb
from bigfleet.provider.fake.ledger.shapes import FleetShapes
from bigfleet.provider.fake.observing import Observer
from bigfleet.provider.kit import MachineRecord


class Given(NamedTuple):
    """A machine that a cluster was given."""

    cluster: str
    binding: str
    """The operation that gave it; empty for a machine that the cluster began with."""


class Words(Observer):
    """Which cluster was given which machine, and the streams that hear of changes.

    A word holds from the moment a Configure is accepted until the machine is struck, its drain has landed, or its
    Configure has failed.
    """

    def __init__(self, shapes: FleetShapes) -> None:
        self._shapes = shapes
        self._given: dict[str, Given] = {}
        # The cluster that a machine was drained from last, unless it was lost since.
        self._drained_from: dict[str, str] = {}
        self._of_cluster: dict[str, set[str]] = {}
        self._listeners: dict[str, set[WordsHeard]] = {}

    def give(self, machine: MachineRecord) -> None:
        given = Given(machine.cluster, machine.operation)
        if self._given.get(machine.id) == given:
            return
        self._withdraw(machine.id)
        self._given[machine.id] = given
        self._of_cluster.setdefault(given.cluster, set()).add(machine.id)
        self._changed(given.cluster, machine.id)

    def configuring(self, machine: MachineRecord) -> None:
        self.give(machine)

    def gave_up(self, machine: MachineRecord) -> None:
        # A task that is cancelled late must not take the word of the next binding back.
        if self._given.get(machine.id) == Given(machine.cluster, machine.operation):
            self._withdraw(machine.id)

    def left(self, machine: MachineRecord) -> None:
        self._withdraw(machine.id, drained=True)

    def struck(self, machine: MachineRecord, fault: str) -> None:  # noqa: ARG002
        self._withdraw(machine.id)

    def listen(self, cluster: str) -> "WordsHeard":
        """What a stream of this cluster has to be told, all of it at first; close it at the stream's end."""
        heard = WordsHeard(self, cluster)
        self._listeners.setdefault(cluster, set()).add(heard)
        return heard

    def dismiss(self, cluster: str, heard: "WordsHeard") -> None:
        self._listeners[cluster].discard(heard)

    def all_of(self, cluster: str) -> pb.MachineWords:
        return self._frame(cluster, sorted(self._of_cluster.get(cluster, ())), full=True)

    def some_of(self, cluster: str, machine_ids: Iterable[str]) -> pb.MachineWords:
        return self._frame(cluster, sorted(machine_ids), full=False)

    def _frame(self, cluster: str, machine_ids: Iterable[str], *, full: bool) -> pb.MachineWords:
        frame = pb.MachineWords(full=full)
        for machine_id in machine_ids:
            self._write(frame.machines.add(), cluster, machine_id)
        return frame

    def _write(self, word: pb.MachineWord, cluster: str, machine_id: str) -> None:
        word.machine_id = machine_id
        given, shape = self._given.get(machine_id), self._shapes.get(machine_id)
        if given is None or given.cluster != cluster or shape is None:
            word.gone = True
            word.drained = self._drained_from.get(machine_id) == cluster
            return
        word.binding = given.binding
        word.instance_type, word.zone = shape.instance_type, shape.zone
        word.allocatable.update(shape.allocatable)
        word.labels.update(shape.labels)

    def _withdraw(self, machine_id: str, *, drained: bool = False) -> None:
        given = self._given.pop(machine_id, None)
        if given:
            self._drained_from.pop(machine_id, None)
            if drained:
                self._drained_from[machine_id] = given.cluster
            self._of_cluster[given.cluster].discard(machine_id)
            self._changed(given.cluster, machine_id)

    def _changed(self, cluster: str, machine_id: str) -> None:
        for heard in self._listeners.get(cluster, ()):
            heard.note(machine_id)


class WordsHeard:
    """What one stream has not been told yet. Changes that it is too slow for become one."""

    def __init__(self, words: Words, cluster: str) -> None:
        self._words = words
        self._cluster = cluster
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._opened = False

    def note(self, machine_id: str) -> None:
        self._changed.add(machine_id)
        self._news.set()

    async def next_frame(self) -> pb.MachineWords:
        """The whole set at first; then, once there are any, changes."""
        if self._opened:
            await self._news.wait()
        self._news.clear()
        changed, self._changed = self._changed, set()
        if not self._opened:
            self._opened = True
            return self._words.all_of(self._cluster)
        return self._words.some_of(self._cluster, changed)

    def close(self) -> None:
        self._words.dismiss(self._cluster, self)

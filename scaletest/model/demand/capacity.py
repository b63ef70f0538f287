"""Rung 0.5: can the seeded machines ever satisfy the demand? Arithmetic by matching shape.

A necessary condition: what fails here fails in every run, however long; what passes may still fail. For every set of
archetypes, all machines that could serve one of them must cover what they ask for together
(docs/reference/harness.md#validation-ladder).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from bigfleet.core.vectors import Vector, add, covers, scaled
from scaletest.model.demand.needs import machines_covering
from scaletest.model.documents.catalog import Archetype

# Sets of this many archetypes are all tried; in larger groups only single ones and the whole group.
_EXHAUSTIVE = 12


@dataclass(frozen=True)
class Shortage:
    """Archetypes that ask for more than all machines that could serve them."""

    archetypes: tuple[str, ...]
    asked_machines: int
    missing_machines: int


def serves(machine: Archetype, asked: Archetype, density: int) -> float:
    """The share of an archetype's machines that could serve another's Pods."""
    if not covers(machine.machine_allocatable(density), asked.largest_pod):
        return 0.0
    if asked.label_axes and machine.label_axes != asked.label_axes:
        return 0.0
    types = len(set(machine.instance_types) & set(asked.instance_types)) / len(set(machine.instance_types))
    zones = len(set(machine.zones) & set(asked.zones)) / len(set(machine.zones))
    return types * zones


def find_shortage(
    demand: Mapping[str, int],
    demanded: Mapping[str, Archetype],
    supply: Mapping[str, int],
    seeded: Mapping[str, Archetype],
    density: int,
) -> Shortage | None:
    """The smallest set of archetypes that cannot be served, or None. Counts are machines of each one's own shape."""
    asked = {name: count for name, count in demand.items() if count}
    shares = {
        (kind, name): serves(seeded[kind], demanded[name], density)
        for kind, count in supply.items()
        if count
        for name in asked
    }
    rooms = {kind: scaled(seeded[kind].machine_allocatable(density), count) for kind, count in supply.items()}
    for names in _sets_to_try(asked, shares):
        want: Vector = {}
        for name in names:
            want = add(want, scaled(demanded[name].machine_allocatable(density), asked[name]))
        have: Vector = {}
        for kind, room in rooms.items():
            share = max((shares.get((kind, name), 0.0) for name in names), default=0.0)
            have = add(have, {dimension: int(milli * share) for dimension, milli in room.items()})
        if not covers(have, want):
            first = max(names, key=lambda name: (asked[name], name))
            short = {dimension: milli - have.get(dimension, 0) for dimension, milli in want.items()}
            room = demanded[first].machine_allocatable(density)
            missing = machines_covering({d: m for d, m in short.items() if d in room}, room)
            return Shortage(tuple(names), sum(asked[name] for name in names), missing)
    return None


def _sets_to_try(asked: Iterable[str], shares: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, ...]]:
    """Smallest first, within groups that share machines: sets from different groups cannot compete."""
    for group in _groups(asked, shares):
        sizes = range(1, len(group) + 1) if len(group) <= _EXHAUSTIVE else (1, len(group))
        for size in sizes:
            yield from combinations(group, size)


def _groups(asked: Iterable[str], shares: Mapping[tuple[str, str], float]) -> list[list[str]]:
    """Archetypes that share machines, directly or through others."""
    groups: list[tuple[set[str], set[str]]] = []
    for name in asked:
        kinds = {kind for (kind, other), share in shares.items() if other == name and share}
        names = {name}
        apart: list[tuple[set[str], set[str]]] = []
        for group in groups:
            if group[1] & kinds:
                names |= group[0]
                kinds |= group[1]
            else:
                apart.append(group)
        groups = [*apart, (names, kinds)]
    return [sorted(names) for names, _ in groups]

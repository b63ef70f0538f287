"""One cycle's inventory, indexed for the questions that the phases ask (spec/engine.md §3.6)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

from bigfleet.core.machines import BOUND, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.penalty import effective_cost, upper_bound
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, Profile
from bigfleet.core.vectors import ReadVector, Vector, covers

# Machines that no need can tell apart (same attributes, same allocatable) are of one kind, so that every question of
# match and fit is asked once per kind instead of once per machine.
Kind = int
Kinds = frozenset[Kind]


def keep_order(machine: Machine) -> tuple[float, float, str]:
    """Those kept first come first: cheap ones, then those costly to reclaim, then by id (spec/engine.md §3.4)."""
    return machine.price_per_hour, -machine.assignment.reclamation_dollars, machine.id


def idle_order(machine: Machine) -> tuple[float, str]:
    """Those taken first come first: cheap ones, then by id (spec/engine.md §3.4)."""
    return machine.price_per_hour, machine.id


def speculative_cost(machine: Machine, interruption_bucket: int) -> float:
    """What a machine that is not bought yet costs to someone with this penalty (spec/engine.md §3.4)."""
    penalty = upper_bound(interruption_bucket)
    return effective_cost(machine.price_per_hour, machine.interruption_probability, penalty)


def _speculative_order(interruption_bucket: int) -> Callable[[Machine], tuple[float, str]]:
    """Those taken first come first: low effective cost, then by id (spec/engine.md §3.4)."""
    return lambda machine: (speculative_cost(machine, interruption_bucket), machine.id)


def smallest_useful_machine(need: Need) -> Vector:
    """What a machine must cover to serve a need: `min_unit`, and something of every dimension that is asked for.

    The second half follows from the first in a well-formed need (spec/engine.md §2.1: min_unit is the largest pod in
    each dimension). It keeps a need without a proper min_unit from swallowing machines that bring it nothing.
    """
    return {name: 1 for name, milli in need.aggregate.items() if milli > 0} | {
        name: milli for name, milli in need.min_unit.items() if milli > 0
    }


class Snapshot:
    """Machines by state, by cluster and by what they can serve. Every sequence has one fixed order."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self._by_state: dict[MachineState, list[Machine]] = defaultdict(list)
        self._bound: dict[str, dict[MachineState, list[Machine]]] = defaultdict(lambda: defaultdict(list))
        self._creating: dict[tuple[str, str], list[Machine]] = defaultdict(list)
        self._kind_of: dict[str, Kind] = {}
        self._examples: list[Machine] = []
        kinds: dict[object, Kind] = {}
        for machine in sorted(machines, key=lambda m: m.id):
            self._by_state[machine.state].append(machine)
            if machine.state in BOUND:
                self._bound[machine.cluster][machine.state].append(machine)
            elif machine.state is MachineState.CREATING:
                self._creating[machine.assignment.fingerprint, machine.assignment.group].append(machine)
            kind = kinds.setdefault(_kind_key(machine), len(kinds))
            if kind == len(self._examples):
                self._examples.append(machine)
            self._kind_of[machine.id] = kind
        for states in self._bound.values():
            for bound in states.values():
                bound.sort(key=keep_order)
        self._idle = sorted(self.in_state(MachineState.IDLE), key=idle_order)
        self._creating_order: dict[tuple[str, str], list[Machine]] = {}
        self._speculative: dict[int, list[Machine]] = {}
        self._matching: dict[str, Kinds] = {}
        self._usable: dict[tuple[str, frozenset[tuple[str, int]]], Kinds] = {}
        self._pools: dict[tuple[int, Kinds], list[Machine]] = {}

    def in_state(self, state: MachineState) -> Sequence[Machine]:
        """By id."""
        return self._by_state.get(state, [])

    def clusters(self) -> Sequence[str]:
        """Those with bound machines, by id."""
        return sorted(self._bound)

    def configured(self, cluster: str) -> Sequence[Machine]:
        """In keep order."""
        return self._bound_in(cluster, MachineState.CONFIGURED)

    def bound(self, cluster: str) -> Iterable[Machine]:
        """What counts as a cluster's capacity: Configured, then Configuring, in keep order (spec/engine.md §3.9)."""
        return chain.from_iterable(self._bound_in(cluster, state) for state in BOUND)

    def _bound_in(self, cluster: str, state: MachineState) -> Sequence[Machine]:
        states: Mapping[MachineState, Sequence[Machine]] = self._bound.get(cluster, {})
        return states.get(state, ())

    def creating(self, profile: Profile, group: str) -> Sequence[Machine]:
        """Machines being created for a profile and gang, in the order in which acquisition took them."""
        key = profile.fingerprint, group
        ordered = self._creating_order.get(key)
        if ordered is None:
            order = _speculative_order(profile.interruption_bucket)
            ordered = self._creating_order[key] = sorted(self._creating.get(key, ()), key=order)
        return ordered

    def kind(self, machine: Machine) -> Kind:
        return self._kind_of[machine.id]

    def example(self, kind: Kind) -> Machine:
        """Some machine of the kind: all have its attributes and its allocatable."""
        return self._examples[kind]

    def matching(self, profile: Profile) -> Kinds:
        """The kinds that meet every requirement of a profile (spec/engine.md §3.3)."""
        kinds = self._matching.get(profile.fingerprint)
        if kinds is None:
            kinds = frozenset(k for k, example in enumerate(self._examples) if profile.matches(example.attribute))
            self._matching[profile.fingerprint] = kinds
        return kinds

    def usable(self, profile: Profile, unit: ReadVector) -> Kinds:
        """The kinds that match a profile and cover a unit."""
        key = profile.fingerprint, frozenset(unit.items())
        kinds = self._usable.get(key)
        if kinds is None:
            kinds = frozenset(k for k in self.matching(profile) if covers(self._examples[k].allocatable, unit))
            self._usable[key] = kinds
        return kinds

    def pool(self, interruption_bucket: int, kinds: Kinds) -> Sequence[Machine]:
        """Free machines of these kinds in the order of acquisition: Idle, then Speculative (spec/engine.md §3.9)."""
        key = interruption_bucket, kinds
        pool = self._pools.get(key)
        if pool is None:
            free = chain(self._idle, self._speculative_for(interruption_bucket))
            pool = [machine for machine in free if self._kind_of[machine.id] in kinds]
            self._pools[key] = pool
        return pool

    def _speculative_for(self, interruption_bucket: int) -> Sequence[Machine]:
        ordered = self._speculative.get(interruption_bucket)
        if ordered is None:
            order = _speculative_order(interruption_bucket)
            ordered = self._speculative[interruption_bucket] = sorted(
                self.in_state(MachineState.SPECULATIVE), key=order
            )
        return ordered

    @cached_property
    def free_by_kind(self) -> Mapping[Kind, int]:
        """How many Idle and Speculative machines there are of each kind."""
        free = chain(self._idle, self.in_state(MachineState.SPECULATIVE))
        return Counter(self._kind_of[machine.id] for machine in free)


def _kind_key(machine: Machine) -> object:
    return (
        machine.attribute(INSTANCE_TYPE_KEY),
        machine.zone,
        frozenset(machine.labels.items()),
        frozenset(machine.allocatable.items()),
    )

"""What a random world is made of: a small palette each, so that ties, near misses and collisions are common."""

from dataclasses import dataclass
from enum import Enum

from bigfleet.core import penalty
from bigfleet.core.machines import UNASSIGNED, Assignment, CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import (
    INSTANCE_TYPE_KEY,
    RACK_KEY,
    ZONE_KEY,
    NeedProfile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.core.vectors import Vector
from tests.agreement.dice import Dice

MACHINES = 48
HOSTLESS = (MachineState.SPECULATIVE, MachineState.CREATING)
BOUND_OR_LEAVING = (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING)
# Mostly what acquisition and credit look at.
_STATES = (
    MachineState.SPECULATIVE,
    MachineState.IDLE,
    MachineState.CONFIGURED,
    MachineState.CONFIGURED,
    MachineState.SPECULATIVE,
    MachineState.CONFIGURING,
    MachineState.CREATING,
    MachineState.DRAINING,
    MachineState.IDLE,
    MachineState.DELETING,
    MachineState.FAILED,
)
_MOSTLY_FREE = (*_STATES, *[MachineState.SPECULATIVE, MachineState.IDLE] * 5)
_DIMENSIONS = (
    ("cpu",),
    ("cpu", "memory"),
    ("memory", "cpu", "nvidia.com/gpu"),
    ("z", "cpu", "a", "memory", "ephemeral-storage", "é", "pods"),
)
# Milli-units of one step: of a CPU, of a GiB, near the edges of a double and of an int64, and Kubernetes' largest.
_STEPS = (1000, 1, 1024**3 * 1000, 2**53 // 7, 2**58 + 1, (2**63 - 1) * 125)
# Beyond this, sums of odd amounts would leave the range in which the engine's scores are exact: 2^53 units of a
# dimension, the unit being the largest that all its amounts share (ADR-15).
_ODD_BELOW = 2**40
_SIZES = (4, 1, 2, 8, 3, 7)
_CLUSTERS = (("c1", "c2", "c3"), ("c", "c1", "c10"), ("é", "e", "c\x00"))
_GROUPS = ("g1", "g2", f"{RACK_KEY}\0app=web,;", "")
_TYPES = ("m6i.large", "r6i.large", "m6i", "")
_ZONES = ("zone-a", "zone-b", "zone-c", "")
_RACKS = ("r1", "r2", "r10", "")
_PRIORITIES = (1000, 100, 1_000_000, 0, 600_000, -5)
_BUCKETS = (penalty.UNSPECIFIED, penalty.ZERO, penalty.HALF_DOLLAR, 10, penalty.PINNED)
_DISK, _HOST = "disk", "host"
_REQUIREMENTS = (
    (),
    (Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, ("m6i.large",)),),
    (Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, ("r6i.large", "m6i")),),
    (Requirement(INSTANCE_TYPE_KEY, RequirementOperator.NOT_IN, ("m6i.large",)),),
    (Requirement(INSTANCE_TYPE_KEY, RequirementOperator.EXISTS),),
    (Requirement(_DISK, RequirementOperator.DOES_NOT_EXIST),),
    (
        Requirement(_DISK, RequirementOperator.IN, ("ssd",)),
        Requirement(ZONE_KEY, RequirementOperator.NOT_IN, ("zone-b",)),
    ),
    (Requirement(_DISK, RequirementOperator.NOT_IN, ("ssd",)),),
    (Requirement(_HOST, RequirementOperator.IN, ("h0", "h1", "h2", "h3", "h4", "h5")),),
    (
        Requirement(RACK_KEY, RequirementOperator.EXISTS),
        Requirement(ZONE_KEY, RequirementOperator.IN, ("zone-a", "zone-b")),
    ),
    (
        Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, ("m6i.large",)),
        Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, ("r6i.large",)),
    ),
    (Requirement("", RequirementOperator.UNSPECIFIED),),
)
_SAME_RACK, _SAME_ZONE = (Requirement(key, RequirementOperator.SAME) for key in (RACK_KEY, ZONE_KEY))
_SAME = (
    (_SAME_RACK,),
    (_SAME_ZONE,),
    (_SAME_RACK,),
    (Requirement(RACK_KEY, RequirementOperator.SAME, ("r1", "r10")),),
    (_SAME_RACK,),
    (Requirement(INSTANCE_TYPE_KEY, RequirementOperator.SAME),),
    (),
    (Requirement("absent", RequirementOperator.SAME),),
)
_HARD, _SOFT = WhenUnsatisfiable.DO_NOT_SCHEDULE, WhenUnsatisfiable.SCHEDULE_ANYWAY
_SPREADS = (
    (),
    (Spread(ZONE_KEY, 1, _HARD),),
    (Spread(ZONE_KEY, 2, _HARD),),
    (Spread(ZONE_KEY, 1, _HARD), Spread(RACK_KEY, 1, _HARD)),
    (Spread(ZONE_KEY, 1, _SOFT),),
    (Spread(RACK_KEY, 0, _HARD), Spread(ZONE_KEY, 3, _SOFT)),
    (Spread(_HOST, 1, _HARD),),
)


class Theme(Enum):
    """What kind of demand a world has."""

    MIXED = "mixed"
    PLAIN = "plain"
    GANGS = "gangs"
    CROWDED_GANGS = "crowded gangs"
    SPREADS = "spreads"


_THEMES = (Theme.MIXED, Theme.PLAIN, Theme.CROWDED_GANGS, Theme.SPREADS, Theme.GANGS, Theme.CROWDED_GANGS)


@dataclass(frozen=True)
class Flavour:
    """The palette of one world."""

    ids: tuple[str, ...]
    clusters: tuple[str, ...]
    dimensions: tuple[str, ...]
    step: int
    profiles: tuple[NeedProfile, ...]
    labelled: bool
    # How many instance types, zones and racks there are: few make crowded domains.
    types: int
    zones: int
    racks: int
    # How large machines are: in a roomy world most demand can be met.
    room: int
    # Gangs of several machines crowd a few racks: one's choice of a domain decides another's.
    crowded: bool

    @classmethod
    def of(cls, data: bytes) -> "Flavour":
        dice = Dice(data)
        ids = _IDS[dice.below(len(_IDS))]
        theme = dice.of(_THEMES)
        crowded = theme is Theme.CROWDED_GANGS
        clusters, dimensions = dice.of(_CLUSTERS), dice.of(_DIMENSIONS[:2] if crowded else _DIMENSIONS)
        step = _STEPS[max(0, dice.below(2 * len(_STEPS)) - len(_STEPS))]
        labelled = dice.one_in(2)
        profiles = tuple(_profile(dice, theme) for _ in range(2 + dice.below(6)))
        types, zones, racks = (1 + dice.below(4) for _ in range(3))
        room = 1 if crowded else dice.of((1, 3))
        return cls(ids, clusters, dimensions, step, profiles, labelled, types, zones, racks, room, crowded)

    def machine(self, data: bytes, number: int | None = None) -> Machine:
        """A machine that breaks no invariant, in any state, bought for anyone. Without a number, any one."""
        dice = Dice(data)
        any_number, state = dice.below(MACHINES), dice.of(_MOSTLY_FREE if self.crowded else _STATES)
        machine_id = self.ids[any_number if number is None else number % MACHINES]
        size = dice.of(_SIZES[:3] if self.crowded else _SIZES) * self.room
        return Machine(
            machine_id,
            state,
            instance_type=dice.of(_TYPES[: self.types]),
            zone=dice.of(_ZONES[: self.zones]),
            capacity_type=dice.of(tuple(CapacityType)),
            price_per_hour=dice.of((1.0, 0.0, 2.0, 0.1)),
            interruption_probability=dice.of((0.0, 0.05, 1.0)),
            allocatable=self.vector(dice, size),
            labels=self.labels(dice),
            host="" if state in HOSTLESS else f"host-{machine_id}",
            cluster=dice.of(self.clusters) if state in BOUND_OR_LEAVING else "",
            last_error="broken" if state is MachineState.FAILED else "",
            assignment=self._assignment(dice, state),
        )

    def need(self, data: bytes) -> Need:
        dice = Dice(data)
        cluster, profile = dice.of(self.clusters), dice.of(self.profiles)
        pod = self.vector(dice, dice.of((1, 2, 3)[: 1 + self.room]))
        pods = dice.of((5, 6, 8, 9, 12, 17) if self.crowded else (3, 1, 2, 4, 5, 6, 7, 9, 12, 17, 30, 0))
        odd_units: tuple[Vector, ...] = ({}, dict.fromkeys(pod, 0), {self.dimensions[0]: self.step * 5})
        unit: Vector = dice.of((*([pod] * 9), *(() if self.crowded else odd_units)))
        group = dice.of(_GROUPS[:3]) if profile.same else ""
        aggregate = {name: milli * pods for name, milli in pod.items()}
        return Need(cluster, profile, aggregate, unit, group, arrival=float(dice.below(3)))

    def vector(self, dice: Dice, size: int) -> Vector:
        """Something of most dimensions; zero of one is not the same as none of it, but must mean the same."""
        shape = dice.below(4 if self.crowded else 8)
        amounts = {name: size * self.step * (1 + (i * shape) % 3) for i, name in enumerate(self.dimensions)}
        if shape == 5 and self.step < _ODD_BELOW:
            amounts[self.dimensions[0]] += 1
        elif shape == 7:
            amounts[self.dimensions[-1]] = 0
        elif shape == 6 and len(self.dimensions) > 1:
            del amounts[self.dimensions[-1]]
        return amounts

    def labels(self, dice: Dice) -> dict[str, str]:
        rack, disk, host = dice.of(_RACKS[: self.racks]), dice.of(("", "ssd", "hdd")), dice.below(MACHINES)
        labels = {RACK_KEY: rack} if rack else {}
        if self.labelled:
            labels |= {_DISK: disk} if disk else {}
            labels |= {_HOST: f"h{host}"}
            labels |= {INSTANCE_TYPE_KEY: "m6i", ZONE_KEY: "zone-c"} if host % 5 == 0 else {}
        return labels

    def _assignment(self, dice: Dice, state: MachineState) -> Assignment:
        folded = (profile.without_same() for profile in self.profiles if profile.same)
        profile, group = dice.of((*self.profiles, None, *folded)), dice.of(_GROUPS)
        if profile is None or state not in (*BOUND_OR_LEAVING, MachineState.CREATING):
            return UNASSIGNED
        group = group if profile.same else ""
        return creating_for(profile, group) if state is MachineState.CREATING else bound_for(profile, group)


def bound_for(profile: NeedProfile, group: str) -> Assignment:
    """What a bootstrap stamps (docs/reference/engine.md#machine-states)."""
    return Assignment(
        profile.priority,
        penalty.upper_bound(profile.interruption_bucket),
        penalty.upper_bound(profile.reclamation_bucket),
        profile.fingerprint,
        group,
    )


def creating_for(profile: NeedProfile, group: str) -> Assignment:
    """What a provision stamps: for whom, and nothing more (docs/reference/engine.md#machine-states)."""
    return Assignment(fingerprint=profile.fingerprint, group=group)


def _profile(dice: Dice, theme: Theme) -> NeedProfile:
    requirements, same, spread = dice.below(2 * len(_REQUIREMENTS)), dice.below(256), dice.below(256)
    mixed, crowded = theme is Theme.MIXED, theme is Theme.CROWDED_GANGS
    gangs = crowded or theme is Theme.GANGS or (mixed and same % 3 == 0)
    spreads = theme is Theme.SPREADS or (mixed and spread % 3 == 0)
    return NeedProfile.canonical(
        [
            *(() if crowded else _REQUIREMENTS[max(0, requirements - len(_REQUIREMENTS))]),
            *(_SAME[(same >> 2) % (3 if crowded else len(_SAME))] if gangs else ()),
        ],
        _SPREADS[(spread >> 2) % len(_SPREADS)] if spreads else (),
        dice.of(_PRIORITIES),
        dice.of(_BUCKETS),
        dice.of(_BUCKETS),
    )


def _plain_ids() -> tuple[str, ...]:
    return tuple(f"m{number:02}" for number in range(MACHINES))


def _ids_that_begin_alike() -> tuple[str, ...]:
    return tuple("m" * (1 + number % 12) + "-1" * (number // 12) for number in range(MACHINES))


def _ids_of_all_alphabets() -> tuple[str, ...]:
    letters = ("a", "Z", "é", "ÿ", "ｚ", "日", "\U0001f600", "\U00010000", "￿", "-", "a\0", "\0")
    return tuple(letter * (1 + number) for number in range(4) for letter in letters)


_IDS = (_plain_ids(), _plain_ids(), _ids_that_begin_alike(), _ids_of_all_alphabets())

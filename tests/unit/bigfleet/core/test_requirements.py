"""Match semantics, canonical profiles and fingerprints (docs/reference/engine.md#matching)."""

import pickle
from dataclasses import replace
from itertools import permutations

import pytest

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import (
    INSTANCE_TYPE_KEY,
    RACK_KEY,
    ZONE_KEY,
    Operator,
    Profile,
    Requirement,
    Spread,
    WhenUnsatisfiable,
)

HAS = {"disk": "ssd"}.get


@pytest.mark.parametrize(
    ("operator", "values", "on_ssd", "on_nothing"),
    [
        (Operator.IN, ("ssd", "nvme"), True, False),
        (Operator.IN, ("hdd",), False, False),
        (Operator.IN, (), False, False),
        (Operator.NOT_IN, ("ssd",), False, True),
        (Operator.NOT_IN, ("hdd",), True, True),
        (Operator.EXISTS, (), True, False),
        (Operator.DOES_NOT_EXIST, (), False, True),
        (Operator.SAME, (), True, False),
        (Operator.SAME, ("ssd",), True, False),
        (Operator.SAME, ("hdd",), False, False),
        (Operator.UNSPECIFIED, ("ssd",), False, False),
    ],
)
def test_operators(operator: Operator, values: tuple[str, ...], on_ssd: bool, on_nothing: bool) -> None:
    assert Requirement("disk", operator, values).matches(HAS) is on_ssd
    assert Requirement("other", operator, values).matches(HAS) is on_nothing


def test_a_profile_matches_what_meets_all_its_requirements() -> None:
    ssd, other = Requirement("disk", Operator.EXISTS), Requirement("other", Operator.EXISTS)
    assert Profile.canonical([ssd], [], 0, 0, 0).matches(HAS)
    assert not Profile.canonical([ssd, other], [], 0, 0, 0).matches(HAS)
    assert Profile.canonical([], [], 0, 0, 0).matches(HAS)


def test_type_and_zone_are_read_from_the_machine_before_its_labels() -> None:
    labels = {INSTANCE_TYPE_KEY: "label-type", ZONE_KEY: "label-zone", RACK_KEY: "r1"}
    machine = Machine("m", MachineState.SPECULATIVE, instance_type="m6i.large", zone="zone-a", labels=labels)
    assert machine.attribute(INSTANCE_TYPE_KEY) == "m6i.large"
    assert machine.attribute(ZONE_KEY) == "zone-a"
    assert machine.attribute(RACK_KEY) == "r1"
    assert machine.attribute("absent") is None
    bare = replace(machine, instance_type="", zone="")
    assert bare.attribute(INSTANCE_TYPE_KEY) == "label-type"
    assert bare.attribute(ZONE_KEY) == "label-zone"


def test_the_fingerprint_is_spelled_as_on_the_wire() -> None:
    profile = Profile.canonical(
        [Requirement(RACK_KEY, Operator.SAME), Requirement(INSTANCE_TYPE_KEY, Operator.IN, ("b", "a"))],
        [Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)],
        1000,
        16,
        27,
    )
    assert profile.fingerprint == (
        "p=1000|ipb=16|rpb=27|reqs=node.kubernetes.io/instance-type:1:a,b;topology.bigfleet/rack:5:"
        "|spr=topology.kubernetes.io/zone:1:1"
    )
    assert Profile.canonical([], [], -5, 0, 1).fingerprint == "p=-5|ipb=0|rpb=1|reqs=|spr="


def test_equal_demands_have_equal_fingerprints_however_they_are_written() -> None:
    requirements = [
        Requirement("b", Operator.IN, ("y", "x")),
        Requirement("a", Operator.NOT_IN, ("z",)),
        Requirement("a", Operator.EXISTS),
    ]
    spread = [
        Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE),
        Spread(RACK_KEY, 2, WhenUnsatisfiable.DO_NOT_SCHEDULE),
    ]
    profiles = {
        Profile.canonical(reqs, spr, 1, 2, 3) for reqs in permutations(requirements) for spr in permutations(spread)
    }
    assert len(profiles) == 1
    assert Profile.canonical([*requirements, requirements[0]], spread, 1, 2, 3) in profiles


@pytest.mark.parametrize(
    "other",
    [
        Profile.canonical([Requirement("a", Operator.EXISTS)], [], 2, 0, 0),
        Profile.canonical([Requirement("a", Operator.EXISTS)], [], 1, 1, 0),
        Profile.canonical([Requirement("a", Operator.EXISTS)], [], 1, 0, 1),
        Profile.canonical([Requirement("a", Operator.SAME)], [], 1, 0, 0),
        Profile.canonical([Requirement("b", Operator.EXISTS)], [], 1, 0, 0),
        Profile.canonical(
            [Requirement("a", Operator.EXISTS)], [Spread("z", 1, WhenUnsatisfiable.SCHEDULE_ANYWAY)], 1, 0, 0
        ),
    ],
)
def test_each_part_of_a_profile_is_in_its_fingerprint(other: Profile) -> None:
    assert Profile.canonical([Requirement("a", Operator.EXISTS)], [], 1, 0, 0).fingerprint != other.fingerprint


def test_a_gang_without_its_same_requirement_is_the_plain_profile() -> None:
    exists = Requirement("a", Operator.EXISTS)
    gang = Profile.canonical([exists, Requirement(RACK_KEY, Operator.SAME)], [], 7, 1, 2)
    assert gang.same == Requirement(RACK_KEY, Operator.SAME)
    assert gang.without_same() == Profile.canonical([exists], [], 7, 1, 2)
    assert gang.without_same().same is None


def test_a_gang_bound_to_certain_domains_stays_bound_to_them() -> None:
    gang = Profile.canonical([Requirement(RACK_KEY, Operator.SAME, ("r2", "r1"))], [], 7, 1, 2)
    allowed = Requirement(RACK_KEY, Operator.IN, ("r1", "r2"))
    assert gang.without_same() == Profile.canonical([allowed], [], 7, 1, 2)


def test_only_in_pins_instance_types() -> None:
    def pinned(*requirements: Requirement) -> frozenset[str] | None:
        return Profile.canonical(requirements, [], 0, 0, 0).pinned_instance_types

    in_ab, in_bc = (Requirement(INSTANCE_TYPE_KEY, Operator.IN, values) for values in (("a", "b"), ("b", "c")))
    assert pinned(in_ab) == frozenset({"a", "b"})
    assert pinned(in_ab, in_bc) == frozenset({"b"})
    assert pinned() is None
    assert pinned(Requirement(ZONE_KEY, Operator.IN, ("a",))) is None
    assert pinned(Requirement(INSTANCE_TYPE_KEY, Operator.EXISTS)) is None
    assert pinned(in_ab, Requirement(INSTANCE_TYPE_KEY, Operator.NOT_IN, ("a",))) is None


def test_a_profile_that_has_told_its_fingerprint_is_still_the_same_value() -> None:
    told, fresh = (Profile.canonical([Requirement("a", Operator.EXISTS)], [], 1, 0, 0) for _ in range(2))
    assert told.fingerprint
    assert told == fresh
    assert hash(told) == hash(fresh)
    assert pickle.loads(pickle.dumps(told)) == fresh
    assert replace(told, priority=2).fingerprint.startswith("p=2|")


def test_a_need_is_known_by_cluster_fingerprint_and_group() -> None:
    profile = Profile.canonical([], [], 1, 0, 0)
    need = Need("c1", profile, {"cpu": 1}, {"cpu": 1}, "g", arrival=5.0)
    assert need.key == ("c1", profile.fingerprint, "g")
    assert hash(need) == hash(replace(need, aggregate={"cpu": 2}))

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
    NeedProfile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)

HAS = {"disk": "ssd"}.get


@pytest.mark.parametrize(
    ("operator", "values", "on_ssd", "on_nothing"),
    [
        (RequirementOperator.IN, ("ssd", "nvme"), True, False),
        (RequirementOperator.IN, ("hdd",), False, False),
        (RequirementOperator.IN, (), False, False),
        (RequirementOperator.NOT_IN, ("ssd",), False, True),
        (RequirementOperator.NOT_IN, ("hdd",), True, True),
        (RequirementOperator.EXISTS, (), True, False),
        (RequirementOperator.DOES_NOT_EXIST, (), False, True),
        (RequirementOperator.SAME, (), True, False),
        (RequirementOperator.SAME, ("ssd",), True, False),
        (RequirementOperator.SAME, ("hdd",), False, False),
        (RequirementOperator.UNSPECIFIED, ("ssd",), False, False),
    ],
)
def test_operators(operator: RequirementOperator, values: tuple[str, ...], on_ssd: bool, on_nothing: bool) -> None:
    assert Requirement("disk", operator, values).matches(HAS) is on_ssd
    assert Requirement("other", operator, values).matches(HAS) is on_nothing


def test_a_profile_matches_what_meets_all_its_requirements() -> None:
    ssd, other = Requirement("disk", RequirementOperator.EXISTS), Requirement("other", RequirementOperator.EXISTS)
    assert NeedProfile.canonical([ssd], [], 0, 0, 0).matches(HAS)
    assert not NeedProfile.canonical([ssd, other], [], 0, 0, 0).matches(HAS)
    assert NeedProfile.canonical([], [], 0, 0, 0).matches(HAS)


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
    profile = NeedProfile.canonical(
        [
            Requirement(RACK_KEY, RequirementOperator.SAME),
            Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, ("b", "a")),
        ],
        [Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)],
        1000,
        16,
        27,
    )
    assert profile.fingerprint == (
        "p=1000|ipb=16|rpb=27|reqs=node.kubernetes.io/instance-type:1:a,b;topology.bigfleet/rack:5:"
        "|spr=topology.kubernetes.io/zone:1:1"
    )
    assert NeedProfile.canonical([], [], -5, 0, 1).fingerprint == "p=-5|ipb=0|rpb=1|reqs=|spr="


def test_equal_demands_have_equal_fingerprints_however_they_are_written() -> None:
    requirements = [
        Requirement("b", RequirementOperator.IN, ("y", "x")),
        Requirement("a", RequirementOperator.NOT_IN, ("z",)),
        Requirement("a", RequirementOperator.EXISTS),
    ]
    spread = [
        Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE),
        Spread(RACK_KEY, 2, WhenUnsatisfiable.DO_NOT_SCHEDULE),
    ]
    profiles = {
        NeedProfile.canonical(reqs, spr, 1, 2, 3) for reqs in permutations(requirements) for spr in permutations(spread)
    }
    assert len(profiles) == 1
    assert NeedProfile.canonical([*requirements, requirements[0]], spread, 1, 2, 3) in profiles


@pytest.mark.parametrize(
    "other",
    [
        NeedProfile.canonical([Requirement("a", RequirementOperator.EXISTS)], [], 2, 0, 0),
        NeedProfile.canonical([Requirement("a", RequirementOperator.EXISTS)], [], 1, 1, 0),
        NeedProfile.canonical([Requirement("a", RequirementOperator.EXISTS)], [], 1, 0, 1),
        NeedProfile.canonical([Requirement("a", RequirementOperator.SAME)], [], 1, 0, 0),
        NeedProfile.canonical([Requirement("b", RequirementOperator.EXISTS)], [], 1, 0, 0),
        NeedProfile.canonical(
            [Requirement("a", RequirementOperator.EXISTS)], [Spread("z", 1, WhenUnsatisfiable.SCHEDULE_ANYWAY)], 1, 0, 0
        ),
    ],
)
def test_each_part_of_a_profile_is_in_its_fingerprint(other: NeedProfile) -> None:
    assert (
        NeedProfile.canonical([Requirement("a", RequirementOperator.EXISTS)], [], 1, 0, 0).fingerprint
        != other.fingerprint
    )


def test_a_gang_without_its_same_requirement_is_the_plain_profile() -> None:
    exists = Requirement("a", RequirementOperator.EXISTS)
    gang = NeedProfile.canonical([exists, Requirement(RACK_KEY, RequirementOperator.SAME)], [], 7, 1, 2)
    assert gang.same == Requirement(RACK_KEY, RequirementOperator.SAME)
    assert gang.without_same() == NeedProfile.canonical([exists], [], 7, 1, 2)
    assert gang.without_same().same is None


def test_a_gang_bound_to_certain_domains_stays_bound_to_them() -> None:
    gang = NeedProfile.canonical([Requirement(RACK_KEY, RequirementOperator.SAME, ("r2", "r1"))], [], 7, 1, 2)
    allowed = Requirement(RACK_KEY, RequirementOperator.IN, ("r1", "r2"))
    assert gang.without_same() == NeedProfile.canonical([allowed], [], 7, 1, 2)


def test_only_in_pins_instance_types() -> None:
    def pinned(*requirements: Requirement) -> frozenset[str] | None:
        return NeedProfile.canonical(requirements, [], 0, 0, 0).pinned_instance_types

    in_ab, in_bc = (
        Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, values) for values in (("a", "b"), ("b", "c"))
    )
    assert pinned(in_ab) == frozenset({"a", "b"})
    assert pinned(in_ab, in_bc) == frozenset({"b"})
    assert pinned() is None
    assert pinned(Requirement(ZONE_KEY, RequirementOperator.IN, ("a",))) is None
    assert pinned(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.EXISTS)) is None
    assert pinned(in_ab, Requirement(INSTANCE_TYPE_KEY, RequirementOperator.NOT_IN, ("a",))) is None


def test_a_profile_that_has_told_its_fingerprint_is_still_the_same_value() -> None:
    told, fresh = (NeedProfile.canonical([Requirement("a", RequirementOperator.EXISTS)], [], 1, 0, 0) for _ in range(2))
    assert told.fingerprint
    assert told == fresh
    assert hash(told) == hash(fresh)
    assert pickle.loads(pickle.dumps(told)) == fresh
    assert replace(told, priority=2).fingerprint.startswith("p=2|")


def test_a_need_is_known_by_cluster_fingerprint_and_group() -> None:
    profile = NeedProfile.canonical([], [], 1, 0, 0)
    need = Need("c1", profile, {"cpu": 1}, {"cpu": 1}, "g", arrival=5.0)
    assert need.key == ("c1", profile.fingerprint, "g")
    assert hash(need) == hash(replace(need, aggregate={"cpu": 2}))

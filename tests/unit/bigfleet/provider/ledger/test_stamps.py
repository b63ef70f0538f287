"""What a shard stamps on a machine says of its need what the need's fingerprint says."""

import pytest

from bigfleet.core.requirements import NeedProfile, Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.provider.fake.ledger.stamps import contradictions
from bigfleet.shard.convert import assignment_for, metadata_from_assignment

PREFIX = "bigfleet.lucy.sh/assigned-"
IN_A_ZONE = Requirement("topology.kubernetes.io/zone", RequirementOperator.IN, ("zone-a", "zone-b"))
IN_ONE_RACK = Requirement("bigfleet.lucy.sh/rack", RequirementOperator.SAME)
EVENLY = Spread("topology.kubernetes.io/zone", 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)


def stamped(
    *more: Requirement, group: str = "", priority: int = 1000, interruption: int = 8, reclamation: int = 16
) -> dict[str, str]:
    """As a shard of today does it."""
    profile = NeedProfile.canonical([IN_A_ZONE, *more], [EVENLY], priority, interruption, reclamation)
    return metadata_from_assignment(assignment_for(profile, group))


@pytest.mark.parametrize("bucket", [0, 1, 2, 3, 4, 26, 27])
def test_a_stamp_of_a_good_shard_does_not_contradict_itself(bucket: int) -> None:
    assert contradictions(stamped(interruption=bucket, reclamation=27 - bucket)) == []
    assert contradictions(stamped(IN_ONE_RACK, group="team", interruption=bucket, priority=-5)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", "0"),
        ("interruption-penalty-dollars", "8192"),
        ("reclamation-penalty-dollars", ""),
        ("group", "team"),
    ],
)
def test_each_field_is_that_of_the_need(field: str, value: str) -> None:
    assert contradictions(stamped() | {f"{PREFIX}{field}": value}) == [field]


def test_a_machine_of_a_gang_is_stamped_with_its_group() -> None:
    assert contradictions(stamped(IN_ONE_RACK)) == ["group"]


def test_a_field_that_is_missing_is_wrong() -> None:
    whole = stamped()
    assert contradictions({}) == ["need-fingerprint"]
    assert contradictions(whole | {f"{PREFIX}need-fingerprint": "p=1"}) == ["need-fingerprint"]
    del whole[f"{PREFIX}priority"]
    assert contradictions(whole) == ["priority"]

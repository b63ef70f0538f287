"""What a leader must tell a shard about its domains."""

from bigfleet.coordinator.ownership import Domain, Ownership

A, B, C = (Domain("zone", value) for value in "abc")


def test_a_shard_lacks_what_it_was_given_and_has_not_got() -> None:
    ownership = Ownership()
    ownership.assign(A, "shard-0")
    ownership.assign(B, "shard-0")
    ownership.assign(C, "shard-1")
    assert ownership.lacking("shard-0", {A}) == [B]
    assert ownership.lacking("shard-2", set()) == []


def test_a_shard_must_give_up_what_was_taken_from_it_and_what_is_anothers() -> None:
    ownership = Ownership()
    ownership.assign(A, "shard-0")
    ownership.unassign(A)
    ownership.assign(B, "shard-1")
    assert ownership.excess("shard-0", {A, B}) == [A, B]
    assert ownership.given_up("shard-0", {A}) == set()
    assert ownership.given_up("shard-0", {B}) == {A}


def test_a_removed_shard_that_comes_back_must_give_up_all_it_had() -> None:
    ownership = Ownership()
    ownership.assign(A, "shard-0")
    ownership.assign(B, "shard-0")
    ownership.remove_shard("shard-0")
    assert ownership.owners == {}
    assert ownership.excess("shard-0", {A, B}) == [A, B]


def test_a_domain_that_was_taken_and_given_back_is_kept() -> None:
    ownership = Ownership()
    ownership.assign(A, "shard-0")
    ownership.unassign(A)
    ownership.assign(A, "shard-0")
    assert ownership.excess("shard-0", {A}) == []


def test_coordinators_that_lost_their_state_take_nothing_away() -> None:
    assert Ownership().excess("shard-0", {A, B}) == []

"""Which shard a domain goes to: to its clusters' shard, else to the least loaded; a newcomer gets its share."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as some

from bigfleet.coordinator.choose_owner import DomainListing, first_share, share_out
from bigfleet.coordinator.ownership import Domain

A, B, C, D = (Domain("zone", value) for value in "abcd")
SHARDS = ("shard-0", "shard-1", "shard-2")
CLUSTERS = {f"k-{number}": SHARDS[number % 3] for number in range(6)}

sizes = some.dictionaries(
    some.sampled_from([Domain("zone", f"z{number}") for number in range(12)]), some.integers(1, 50)
)


def all_list(
    listing: Mapping[Domain, DomainListing], shards: tuple[str, ...] = SHARDS
) -> dict[str, Mapping[Domain, DomainListing]]:
    return dict.fromkeys(shards, listing)


def test_free_domains_are_spread_the_largest_first() -> None:
    listing = {A: DomainListing(10), B: DomainListing(6), C: DomainListing(5), D: DomainListing(1)}
    assert share_out(listing, all_list(listing, SHARDS[:2]), {}, {}) == {
        A: "shard-0",
        B: "shard-1",
        C: "shard-1",
        D: "shard-0",
    }


def test_what_a_shard_owns_already_counts() -> None:
    listing = {A: DomainListing(10), B: DomainListing(1)}
    assert share_out([B], all_list(listing), {A: "shard-0"}, {}) == {B: "shard-1"}


def test_a_domain_with_bound_machines_goes_to_the_shard_of_most_of_their_clusters() -> None:
    listing = {A: DomainListing(10, {"k-0": 1, "k-3": 1, "k-1": 8}), B: DomainListing(10, {"k-0": 1, "k-1": 8})}
    assert share_out(listing, all_list(listing), {}, CLUSTERS) == {A: "shard-0", B: "shard-1"}


def test_it_waits_for_a_shard_that_is_not_there_and_not_for_one_that_does_not_list_it() -> None:
    listing = {A: DomainListing(10, {"k-1": 1, "k-4": 1, "k-0": 1})}
    assert share_out([A], all_list(listing, ("shard-0", "shard-2")), {}, CLUSTERS) == {}
    assert share_out([A], {"shard-0": listing, "shard-1": {}}, {}, CLUSTERS) == {A: "shard-0"}


def test_only_a_shard_that_lists_a_domain_can_have_it() -> None:
    assert share_out([A, B], {"shard-0": {A: DomainListing(1)}, "shard-1": {}}, {}, {}) == {A: "shard-0"}


def test_a_newcomer_gets_no_more_than_evens_it_out() -> None:
    listing = {A: DomainListing(10), B: DomainListing(4), C: DomainListing(3), D: DomainListing(2, {"k-0": 1})}
    owners = {A: "shard-0", B: "shard-0", C: "shard-0", D: "shard-0"}
    assert first_share("shard-1", all_list(listing), owners, resting=[]) == {B: "shard-0", C: "shard-0"}
    assert first_share("shard-1", all_list(listing), owners, resting=[B]) == {C: "shard-0"}


@given(sizes, some.integers(1, 3))
def test_shares_differ_by_no_more_than_the_largest_domain(machines: dict[Domain, int], count: int) -> None:
    listing = {domain: DomainListing(number) for domain, number in machines.items()}
    shards = SHARDS[:count]
    shared = share_out(listing, all_list(listing, shards), {}, {})
    assert shared.keys() == listing.keys()
    loads = [sum(machines[one] for one, shard in shared.items() if shard == each) for each in shards]
    assert max(loads) - min(loads) <= max(machines.values(), default=0)
    backwards = dict(reversed(listing.items()))
    assert share_out(backwards, all_list(backwards, shards[::-1]), {}, {}) == shared, "whatever the order of the facts"


@given(sizes, some.sets(some.integers(0, 11)), some.data())
def test_a_first_share_leaves_bound_domains_and_never_makes_the_newcomer_the_largest(
    machines: dict[Domain, int], bound: set[int], data: some.DataObject
) -> None:
    listing = {
        domain: DomainListing(number, {"k-0": 1} if int(domain.value[1:]) in bound else {})
        for domain, number in machines.items()
    }
    owners = {domain: data.draw(some.sampled_from(SHARDS[:2])) for domain in listing}
    taken = first_share("shard-2", all_list(listing), owners, resting=[])
    assert taken == first_share("shard-2", all_list(listing), owners, resting=[])
    assert not [domain for domain in taken if listing[domain].bound]
    assert all(owners[domain] == donor for domain, donor in taken.items())
    share = sum(machines[domain] for domain in taken)
    left = {
        shard: sum(machines[one] for one, owner in owners.items() if owner == shard and one not in taken)
        for shard in SHARDS[:2]
    }
    assert share <= max(left.values())

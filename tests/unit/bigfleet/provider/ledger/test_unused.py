"""A machine that was bought is given to a cluster soon, or was bought for nothing."""

from bigfleet.provider.fake.ledger.unused import USED_WITHIN_SECONDS, Unused


def test_a_machine_that_a_cluster_is_given_in_time_was_not_bought_for_nothing() -> None:
    unused = Unused()
    unused.bought("a", 0)
    unused.taken("a")
    unused.taken("a stranger")
    unused.look(10 * USED_WITHIN_SECONDS)
    unused.given_back("a")
    assert unused.count == 0


def test_a_machine_that_is_given_to_none_is_counted_once() -> None:
    unused = Unused()
    unused.bought("a", 0)
    unused.bought("b", 5)
    unused.look(USED_WITHIN_SECONDS - 1)
    assert unused.count == 0
    unused.look(USED_WITHIN_SECONDS)
    assert unused.count == 1, "the other one came later"
    unused.given_back("a")
    unused.given_back("b")
    assert unused.count == 2

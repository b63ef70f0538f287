"""Whether Nodes could hold Pods with their rules: nothing that can be placed is ever called a lack."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scaletest.cluster.witness.rooms import PlaceNeed, gangs_fit, is_within, rooms_by_domain, rule_of, spread_fits
from tests.unit.witness_world import GANG, SPREAD, TEAMED, WEB

SIZES = st.lists(st.integers(0, 5), max_size=5)
ROOMS = st.lists(st.integers(1, 9), max_size=4)


def can_place_gangs(sizes: Sequence[int], rooms: Sequence[int]) -> bool:
    """By trying everything."""
    if not sizes:
        return True
    first, *rest = sizes
    return any(
        can_place_gangs(rest, [*rooms[:index], room - first, *rooms[index + 1 :]])
        for index, room in enumerate(rooms or [0])
        if room >= first
    )


def most_spread(rooms: Sequence[int], skew: int) -> int:
    """As kube-scheduler binds: one Pod after the other, where the difference stays small."""
    counts = [0] * len(rooms)
    while True:
        places = [
            index
            for index, room in enumerate(rooms)
            if counts[index] < room and counts[index] + 1 - min(counts) <= skew
        ]
        if not places:
            return sum(counts)
        counts[min(places, key=lambda index: counts[index])] += 1


@given(SIZES, ROOMS)
def test_gangs_that_can_be_placed_lack_nothing(sizes: list[int], rooms: list[int]) -> None:
    assert gangs_fit(sizes, rooms) or not can_place_gangs(sizes, rooms)


@given(st.integers(0, 5), ROOMS)
def test_one_gang_lacks_a_domain_if_and_only_if_none_has_room_for_it(size: int, rooms: list[int]) -> None:
    assert gangs_fit([size], rooms) == (size <= max(rooms, default=0))


@given(st.integers(0, 40), ROOMS, st.integers(1, 3))
def test_a_spread_lacks_room_if_and_only_if_kube_scheduler_must_stop(count: int, rooms: list[int], skew: int) -> None:
    assert spread_fits(count, rooms, skew) == (count <= most_spread(rooms, skew))


def test_only_gangs_and_hard_spreads_have_a_rule() -> None:
    assert rule_of(WEB) is None
    assert rule_of(TEAMED) is None
    gang, spread = rule_of(GANG), rule_of(SPREAD)
    assert gang and (gang.key, gang.max_skew) == ("topology.bigfleet/rack", 0)
    assert spread and (spread.key, spread.max_skew, spread.counted) == ("topology.kubernetes.io/zone", 1, "api")


def test_some_nodes_are_among_others() -> None:
    web, teamed = PlaceNeed.of(WEB).allowed, PlaceNeed.of(TEAMED).allowed
    assert is_within(teamed, web) and is_within(web, web) and is_within(web, ())
    assert not is_within(web, teamed) and not is_within((), web)


def test_nodes_without_the_domains_label_are_in_no_domain() -> None:
    assert rooms_by_domain("rack", PlaceNeed.of(WEB), {}) == []

"""The needs table: arrivals that last, and the guard against roll-ups that drop nearly everything."""

from collections.abc import Sequence

import pytest

from bigfleet.core.needs import Need
from bigfleet.core.requirements import NeedProfile
from bigfleet.shard.sessions.needs import NeedsTable


def need(priority: int, group: str = "", cpu: int = 1000, bucket: int = 0) -> Need:
    return Need("c", NeedProfile.canonical([], [], priority, bucket, 0), {"cpu": cpu}, {"cpu": 1}, group)


def rows(count: int) -> list[Need]:
    return [need(priority) for priority in range(count)]


def demand(table: NeedsTable) -> Sequence[Need]:
    """What the engine has not heard of cluster c yet."""
    return {news.cluster: news.needs for news in table.unheard()}["c"]


def priorities(table: NeedsTable) -> Sequence[int]:
    return [row.profile.priority for row in demand(table)]


class TestArrival:
    def test_is_the_first_sight_and_outlives_roll_ups(self) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", [need(1)], now=10.0)
        table.replace("c", [need(1, cpu=5000), need(2)], now=20.0)
        assert [row.arrival for row in demand(table)] == [10.0, 20.0]

    def test_is_per_gang(self) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", [need(1, "a")], now=10.0)
        table.replace("c", [need(1, "a"), need(1, "b")], now=20.0)
        assert [row.arrival for row in demand(table)] == [10.0, 20.0]

    def test_starts_anew_when_the_need_was_withdrawn(self) -> None:
        table = NeedsTable(guard=False)
        for now, needs in ((10.0, [need(1)]), (20.0, []), (30.0, [need(1)])):
            table.replace("c", needs, now)
        assert demand(table)[0].arrival == 30.0


class TestReplacement:
    def test_a_cluster_that_never_spoke_is_absent_and_one_without_demand_is_not(self) -> None:
        table = NeedsTable(guard=True)
        assert list(table.unheard()) == []
        assert table.replace("c", [], now=1.0).changed
        assert demand(table) == ()

    def test_says_whether_anything_is_new(self) -> None:
        table = NeedsTable(guard=True)
        assert table.replace("c", [need(1)], now=1.0).changed
        assert not table.replace("c", [need(1)], now=2.0).changed
        assert table.replace("c", [need(1, cpu=2000)], now=3.0).changed

    def test_says_in_which_rows_since_the_engine_last_heard(self) -> None:
        table = NeedsTable(guard=True)

        def heard(*needs: Need) -> frozenset[int] | None:
            table.replace("c", needs, now=2.0)
            return next(news.rows for news in table.unheard())

        assert heard(need(1), need(2), need(3)) is None
        assert heard(need(1), need(2, cpu=7), need(3)) == frozenset({1})
        table.replace("c", [need(1, cpu=7), need(2, cpu=7), need(3)], now=2.0)
        table.replace("c", [need(1, cpu=7), need(2, cpu=7), need(3)], now=2.0)
        assert heard(need(1, cpu=7), need(2, cpu=7), need(3, cpu=7)) == frozenset({0, 2})
        assert heard(need(2, cpu=7), need(1, cpu=7), need(3, cpu=7)) == frozenset({0, 1})
        assert heard(need(2, cpu=7), need(1, cpu=7)) is None
        table.replace("c", [need(1)], now=2.0)
        assert heard(need(1, cpu=9)) is None

    def test_what_stands_elsewhere_now_keeps_its_arrival(self) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", [need(1), need(2), need(3)], now=1.0)
        table.replace("c", [need(3), *table.of("c")[1:2], need(4), need(1)], now=2.0)
        assert [(row.profile.priority, row.arrival) for row in demand(table)] == [
            (3, 1.0),
            (2, 1.0),
            (4, 2.0),
            (1, 1.0),
        ]

    def test_counts_rows_per_bucket(self) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", [need(1, bucket=3), need(2, bucket=3), need(3, bucket=27)], now=1.0)
        table.replace("c", [need(1, bucket=3)], now=2.0)
        assert +table.rows_per_bucket == {3: 1}


class TestGuard:
    @pytest.mark.parametrize("survivors", [0, 1])
    def test_a_collapse_is_believed_the_third_time(self, survivors: int) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", rows(20), now=1.0)
        held = [table.replace("c", rows(survivors), now=2.0) for _ in range(2)]
        assert [(verdict.accepted, verdict.held) for verdict in held] == [(False, 1), (False, 2)]
        assert len(priorities(table)) == 20
        assert table.replace("c", rows(survivors), now=3.0).accepted
        assert len(priorities(table)) == survivors

    def test_a_sound_roll_up_in_between_starts_the_count_anew(self) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", rows(20), now=1.0)
        for _ in range(3):
            assert table.replace("c", [], now=2.0).held == 1
            assert table.replace("c", rows(19), now=3.0).accepted

    @pytest.mark.parametrize(("before", "after"), [(9, 0), (10, 1), (20, 2)])
    def test_a_small_or_partial_drop_is_believed_at_once(self, before: int, after: int) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", rows(before), now=1.0)
        assert table.replace("c", rows(after), now=2.0).accepted

    def test_clusters_are_judged_apart(self) -> None:
        table = NeedsTable(guard=True)
        for cluster in ("c", "d"):
            table.replace(cluster, rows(20), now=1.0)
        assert table.replace("c", [], now=2.0).held == 1
        assert table.replace("d", [], now=2.0).held == 1

    def test_can_be_switched_off(self) -> None:
        table = NeedsTable(guard=False)
        table.replace("c", rows(20), now=1.0)
        assert table.replace("c", [], now=2.0).accepted


class TestFirstMachine:
    def test_tells_once_how_long_the_demand_has_waited(self) -> None:
        table = NeedsTable(guard=True)
        table.replace("c", [need(1)], now=10.0)
        table.replace("c", [need(1), need(2)], now=20.0)
        fingerprint = need(1).profile.fingerprint
        assert table.first_machine("c", fingerprint) == 10.0
        assert table.first_machine("c", fingerprint) is None
        table.replace("c", [need(1)], now=30.0)
        assert table.first_machine("c", fingerprint) is None
        assert table.first_machine("c", need(2).profile.fingerprint) is None, "withdrawn before it was met"

"""The load says of itself what came in time and what came late."""

import pytest
from prometheus_client import CollectorRegistry

from scaletest.cluster.load.events import LoadEvents, Successors
from tests.unit.witness_world import Clock


class World:
    """Successors of workloads that each lack as many Pods as a test says."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.short: dict[str, int | None] = {"web": 1, "api": 1}
        self._registry = CollectorRegistry()
        self.events = LoadEvents(self._registry)
        self.successors = Successors(self.events, self.short.__getitem__, self.clock)

    def delete(self, workload: str = "web") -> None:
        self.successors.deleted(self.successors.expect(workload))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            self.successors.look()

    def count(self, event: str) -> tuple[float, float]:
        """(in time, late)."""
        in_time, late = (
            self._registry.get_sample_value("scaletest_load_events_total", {"event": event, "outcome": outcome})
            for outcome in ("in_time", "late")
        )
        assert in_time is not None and late is not None
        return in_time, late


@pytest.fixture
def world() -> World:
    return World()


def test_every_series_is_there_from_the_start(world: World) -> None:
    for event in ("deletion", "successor", "change"):
        assert world.count(event) == (0, 0)


def test_up_to_five_seconds_are_in_time(world: World) -> None:
    for late_seconds in (-1, 0, 5, 5.01, 60):
        world.events.note("deletion", late_seconds)
    assert world.count("deletion") == (3, 2)


def test_a_successor_is_due_when_its_predecessor_was_deleted(world: World) -> None:
    world.delete()
    world.wait(4)
    world.successors.came("web")
    assert world.count("successor") == (1, 0)


def test_one_that_stays_away_is_late_once_and_at_that_moment(world: World) -> None:
    world.delete()
    world.wait(5)
    assert world.count("successor") == (0, 0)
    world.wait(1)
    assert world.count("successor") == (0, 1)
    world.wait(20)
    world.successors.came("web")
    assert world.count("successor") == (0, 1)


def test_a_late_one_is_not_taken_for_the_successor_of_another(world: World) -> None:
    world.delete()
    world.wait(8)
    world.delete()
    world.successors.came("web")
    world.wait(1)
    assert world.count("successor") == (0, 1)
    world.successors.came("web")
    assert world.count("successor") == (1, 1)


def test_a_successor_may_be_seen_before_the_deletion_has_its_answer(world: World) -> None:
    expected = world.successors.expect("web")
    world.successors.came("web")
    world.successors.deleted(expected)
    world.wait(10)
    assert world.count("successor") == (1, 0)


def test_nobody_comes_for_one_that_was_not_deleted(world: World) -> None:
    world.successors.not_deleted(world.successors.expect("web"))
    world.successors.came("web")
    world.wait(10)
    assert world.count("successor") == (0, 0)


def test_each_workload_has_its_own(world: World) -> None:
    world.delete("web")
    world.delete("api")
    world.successors.came("api")
    world.wait(10)
    assert world.count("successor") == (1, 1)


def test_a_workload_that_was_shed_meanwhile_has_no_successors(world: World) -> None:
    world.delete()
    world.short["web"] = None
    world.wait(10)
    assert world.count("successor") == (0, 0)


def test_nobody_is_missed_in_a_workload_that_is_whole(world: World) -> None:
    """Two deleted the same Pod: its one successor came before the second of them had begun to wait."""
    world.delete()
    world.short["web"] = 0
    world.wait(10)
    assert world.count("successor") == (1, 0)

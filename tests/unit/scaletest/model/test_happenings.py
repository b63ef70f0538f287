"""Bursts, sheds and steps: what comes and goes, when, and always the same for the same seed."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaletest.model.demand.draw import Workload, draw_demand
from scaletest.model.demand.happenings import BEFORE_THE_SOAK, Course, Happening, happenings, surplus
from scaletest.model.documents.loadprofile import LoadProfile
from tests.unit.plans import shipped_plan

CATALOG = shipped_plan("5k", "example-fat-host").catalog.demand
TARGET = 2_000


def load(**fields: Any) -> LoadProfile:
    return LoadProfile.model_validate({"target": TARGET, "archetypes": CATALOG, **fields})


def pods(workloads: dict[str, Workload]) -> int:
    return sum(workload.replicas for workload in workloads.values())


def played(profile: LoadProfile, ordinal: int = 0) -> list[tuple[Happening, dict[str, Workload]]]:
    """Each happening with what is there after it; nothing is created twice, and nothing deleted that is not there."""
    drawn = draw_demand(profile.archetypes, profile.target, profile.seed, ordinal).workloads()
    here = {one.name: one for one in (*drawn, *surplus(profile, ordinal))}
    history = []
    for happening in happenings(profile, ordinal):
        for workload in happening.deleted:
            del here[workload.name]
        for workload in happening.created:
            assert workload.name not in here
            here[workload.name] = workload
        history.append((happening, dict(here)))
    return history


def test_a_shed_takes_the_largest_workloads_and_ends_at_its_level() -> None:
    [(happening, left)] = played(load(scaleDowns=[{"atSeconds": 600, "targetMultiplier": 0.5}]))
    assert (happening.at_seconds, happening.what) == (600, "demand at 50%")
    assert TARGET / 2 - 5 < pods(left) <= TARGET / 2
    assert not happening.created
    assert max(one.replicas for one in happening.deleted) >= max(one.replicas for one in left.values())


def test_a_shed_never_stops_above_its_level() -> None:
    gangs = [archetype for archetype in CATALOG if archetype.gang and not archetype.burst_only]
    for seed in range(5):
        shed = load(archetypes=gangs, target=60, seed=seed, scaleDowns=[{"atSeconds": 1, "targetMultiplier": 0.35}])
        [(_, left)] = played(shed)
        assert 21 - 16 < pods(left) <= 21


def test_a_shed_takes_what_an_open_loop_asked_for_too() -> None:
    steps = [{"atSeconds": 10, "targetMultiplier": 0.5}, {"atSeconds": 20, "targetMultiplier": 2}]
    (_, down), (_, up) = played(load(openLoopDemandMultiplier=1.5, demandSteps=steps))
    assert TARGET / 2 - 5 < pods(down) <= TARGET / 2
    assert pods(up) == TARGET * 2


def test_a_step_back_up_brings_back_what_went() -> None:
    steps = [{"atSeconds": 10, "targetMultiplier": 0.5}, {"atSeconds": 20, "targetMultiplier": 1}]
    down, up = played(load(demandSteps=steps))
    assert {one.name for one in up[0].created} == {one.name for one in down[0].deleted}
    assert pods(up[1]) == TARGET


def test_a_step_above_the_target_draws_more_of_the_same_mix() -> None:
    [(happening, there)] = played(load(demandSteps=[{"atSeconds": 10, "targetMultiplier": 1.5}]))
    assert pods(there) == TARGET * 1.5
    assert all("-at-1-5-" in workload.name for workload in happening.created)


def test_a_burst_of_gangs_brings_whole_ones_and_takes_them_away() -> None:
    burst = {"atSeconds": 60, "archetype": "gpu-training-large", "extraTarget": 2, "durationSeconds": 30}
    (begins, _), (ends, there) = played(load(bursts=[burst]))
    assert (begins.at_seconds, ends.at_seconds) == (60, 90)
    assert len(begins.created) == 2 and begins.created == ends.deleted
    assert all(64 <= one.replicas <= 256 and one.group == one.name for one in begins.created)
    assert pods(there) == TARGET


def test_overlapping_bursts_leave_each_others_workloads_alone() -> None:
    bursts = [
        {"atSeconds": at, "archetype": "critical-realtime", "extraTarget": 100, "durationSeconds": 60} for at in (0, 30)
    ]
    after = [pods(there) for _, there in played(load(bursts=bursts))]
    assert after == [TARGET + 100, TARGET + 200, TARGET + 100, TARGET]


def test_a_burst_that_never_drains_stays() -> None:
    [(_, there)] = played(load(bursts=[{"atSeconds": 5, "archetype": "critical-realtime", "extraTarget": 7}]))
    assert pods(there) == TARGET + 7


def test_selectivity_leaves_clusters_out() -> None:
    burst = {"atSeconds": 5, "archetype": "critical-realtime", "extraTarget": 7, "selectivity": 0.3}
    taking_part = sum(bool(happenings(load(bursts=[burst]), ordinal)) for ordinal in range(200))
    assert taking_part == pytest.approx(60, abs=25)


def test_an_open_loop_asks_for_more_than_was_seeded_and_a_closed_one_does_not() -> None:
    assert sum(one.replicas for one in surplus(load(openLoopDemandMultiplier=1.25), 3)) == TARGET / 4
    assert surplus(load(openLoopDemandMultiplier=1), 3) == []


def test_whoever_comes_late_finds_the_level_that_is_due_and_no_burst_that_is_over() -> None:
    burst = {"archetype": "critical-realtime", "extraTarget": 100}
    profile = load(
        openLoopDemandMultiplier=1.25,
        bursts=[burst | {"atSeconds": 10, "durationSeconds": 20}, burst | {"atSeconds": 50}],
        scaleDowns=[{"atSeconds": 40, "targetMultiplier": 0.5}],
    )
    course = Course(profile, 0)

    def level(at_seconds: float) -> int:
        return sum(one.replicas for one in course.due(at_seconds).values())

    assert level(BEFORE_THE_SOAK) == level(9) == TARGET * 1.25
    assert level(10) == level(29) == TARGET * 1.25 + 100
    assert level(30) == TARGET * 1.25
    shed = level(40)
    assert TARGET / 2 - 5 < shed <= TARGET / 2
    assert level(10_000) == shed + 100
    [burst_workload] = course.due(10_000).keys() - course.due(40).keys()
    assert "burst-50" in burst_workload
    before, after = course.pods_due("critical-realtime", np.array([40.0, 50.0]))
    assert after == before + 100
    assert course.all_pods_due(50) == course.all_pods_due(40) + 100


@given(st.lists(st.tuples(st.integers(0, 3600), st.floats(0.01, 3)), max_size=5), st.integers(0, 5))
def test_every_schedule_can_be_carried_out_and_repeats(steps: list[tuple[int, float]], ordinal: int) -> None:
    profile = load(
        target=300,
        demandSteps=[{"atSeconds": at, "targetMultiplier": level} for at, level in steps],
        bursts=[{"atSeconds": 100, "archetype": "gpu-training-large", "extraTarget": 1, "durationSeconds": 50}],
    )
    assert played(profile, ordinal) == played(profile, ordinal)
    times = [happening.at_seconds for happening in happenings(profile, ordinal)]
    assert times == sorted(times)

"""The demand draw: repeatable, exact, in the catalog's mix; and what it needs in machines."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.core.vectors import add, covers, scaled
from scaletest.model.demand.draw import Draw, Workload, draw_clusters, draw_demand, takes_part
from scaletest.model.demand.needs import DrawnNeed, count_demand, needs_of
from scaletest.model.demand.sizing import pod_share
from scaletest.model.documents.catalog import Archetype, Catalog
from scaletest.model.documents.profile import Burst
from tests.unit.plans import smoke_plan

DENSITY = 4


def archetype(name: str, **fields: object) -> Archetype:
    shape = {"instanceTypes": ["m6i.large"], "zones": ["zone-a"], "resources": {"cpu": "1", "memory": "2Gi"}}
    return Archetype.model_validate({"name": name, **shape, **fields})


GANG = {"gang": {"scope": "sameRack", "groupSizeRange": [3, 5]}}
# One of each kind: plain with two sizes and priorities, folding gang, large gang, label axes.
MIXED = (
    archetype(
        "plain",
        weight=6,
        resources=None,
        sizes=[{"weight": 3, "resources": {"cpu": "1"}}, {"resources": {"cpu": "2", "memory": "1Gi"}}],
        priorityClasses=[100, 1000],
        spread={"probability": 0.5, "whenUnsatisfiable": "DoNotSchedule"},
    ),
    archetype("memory-cache", weight=3, podsPerNode=20, **GANG),
    archetype("trainer", weight=2, podsPerNode=1, **GANG),
    archetype("axes", weight=2, labelAxes=[{"key": "example.com/team", "count": 3}, {"key": "tier", "count": 2}]),
    archetype("rare", burstOnly=True),
)


@given(seed=st.integers(), ordinal=st.integers(0, 20_000), target=st.integers(0, 3000))
@settings(max_examples=60)
def test_a_draw_is_repeatable_and_reaches_its_target_exactly(seed: int, ordinal: int, target: int) -> None:
    drawn = draw_demand(MIXED, target, seed, ordinal)
    workloads = list(drawn.workloads())
    assert workloads == list(draw_demand(MIXED, target, seed, ordinal).workloads())
    assert drawn.pods == sum(workload.replicas for workload in workloads) == target
    assert len({workload.name for workload in workloads}) == len(workloads)
    for workload in workloads:
        assert workload.archetype.name != "rare"
        assert workload.size in workload.archetype.pod_sizes
        assert workload.priority in workload.archetype.priority_classes
        assert bool(workload.group) == (workload.archetype.gang is not None)
        if workload.archetype.gang:
            low, high = workload.archetype.gang.group_size_range
            assert low <= workload.replicas <= high, "a gang is whole or not there"


def test_clusters_and_seeds_differ() -> None:
    first, second = draw_clusters(MIXED, 500, 1, range(2))
    other = draw_demand(MIXED, 500, 2, 0)
    drawn = [[(w.archetype.name, w.replicas) for w in draw.workloads()] for draw in (first, second, other)]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_a_catalog_of_gangs_ends_below_its_target_rather_than_with_half_a_gang() -> None:
    drawn = draw_demand([archetype("trainer", **GANG)], 100, 1, 0)
    assert 98 <= drawn.pods <= 100
    assert min(workload.replicas for workload in drawn.workloads()) >= 3
    assert draw_demand([archetype("trainer", **GANG)], 2, 1, 0).pods == 0


def test_stateful_services_stay_small_and_others_follow_the_long_tail() -> None:
    stateful = draw_demand([archetype("stateful-db")], 100_000, 1, 0)
    plain = draw_demand([archetype("web")], 100_000, 1, 0)
    assert stateful.replicas.max() == 25
    assert plain.replicas.max() > 300
    assert plain.replicas.mean() == pytest.approx(21.375, rel=0.05)
    assert stateful.replicas.mean() == pytest.approx(10.05, rel=0.05)


def test_the_mix_of_many_draws_is_the_catalogs() -> None:
    pods: Counter[str] = Counter()
    for draw in draw_clusters(MIXED, 20_000, 1, range(20)):
        for workload in draw.workloads():
            pods[workload.archetype.name] += workload.replicas
    whole = float(sum(map(pod_share, MIXED)))
    for kind in MIXED:
        assert pods[kind.name] / 400_000 == pytest.approx(float(pod_share(kind)) / whole, abs=0.02)


def test_label_axes_draw_every_value_and_become_node_labels() -> None:
    workloads = [w for w in draw_demand(MIXED, 5000, 1, 0).workloads() if w.archetype.name == "axes"]
    assert {w.axes for w in workloads} == {(team, tier) for team in range(3) for tier in range(2)}
    assert workloads[0].node_labels.keys() == {"example.com/team", "tier"}
    assert {w.node_labels["example.com/team"] for w in workloads} == {"team-0", "team-1", "team-2"}


def slow_needs(workloads: list[Workload]) -> Counter[tuple[str, int, tuple[int, ...], bool, int]]:
    """The obvious way: one need for each distinct row of the roll-up, machines added until they cover it."""
    totals: dict[tuple[str, int, tuple[int, ...], bool, object], dict[str, int]] = {}
    kinds = {}
    for w in workloads:
        room = w.archetype.machine_allocatable(DENSITY)
        folds = w.archetype.gang is not None and covers(room, w.aggregate)
        group: object = (w.replicas, w.size.resources["cpu"]) if folds else (w.group or w.has_spread)
        key = (w.archetype.name, w.priority, w.axes, bool(w.archetype.gang and not folds), group)
        totals[key] = add(totals.get(key, {}), w.aggregate)
        kinds[key] = w
    counted: Counter[tuple[str, int, tuple[int, ...], bool, int]] = Counter()
    for key, total in totals.items():
        w, machines = kinds[key], 0
        while not covers(scaled(w.archetype.machine_allocatable(DENSITY), machines), total):
            machines += 1
        counted[w.archetype.name, w.priority, w.axes, bool(key[3]), machines] += 1
    return counted


@given(seed=st.integers(0, 10**6), target=st.integers(0, 800))
@settings(max_examples=50)
def test_the_fast_count_of_needs_is_the_obvious_one(seed: int, target: int) -> None:
    draw = draw_demand(MIXED, target, seed, 0)
    fast = Counter(_as_row(need) for need in needs_of(draw, DENSITY))
    assert fast == slow_needs(list(draw.workloads()))


def _as_row(need: DrawnNeed) -> tuple[str, int, tuple[int, ...], bool, int]:
    return need.archetype.name, need.priority, need.axes, need.is_gang, need.machines


def test_counts_of_a_part_of_the_clusters_are_stretched_to_all() -> None:
    draws: list[Draw] = list(draw_clusters(MIXED, 1000, 1, range(10)))
    part = count_demand(draws[:5], 10, DENSITY, 0.5, {})
    whole = count_demand(draws, 10, DENSITY, 0.5, {})
    assert part.pods == whole.pods == 10_000
    assert part.total_machines == pytest.approx(whole.total_machines, rel=0.2)
    assert part.clusters_drawn == 5


@given(selectivity=st.floats(0, 1), at=st.floats(0, 1e6))
def test_about_the_selected_share_of_clusters_takes_part_in_a_burst(selectivity: float, at: float) -> None:
    burst = Burst(at_seconds=at, archetype="web", extra_target=1, selectivity=selectivity)
    taking = sum(takes_part(burst, ordinal) for ordinal in range(1000))
    assert abs(taking - 1000 * selectivity) < 100
    if selectivity in (0, 1):
        assert taking == 1000 * selectivity


def test_a_catalog_without_steady_demand_is_refused() -> None:
    burst_only = smoke_plan().catalog["web"].model_dump(by_alias=True, exclude_none=True) | {"burstOnly": True}
    with pytest.raises(ValueError, match="no steady demand"):
        Catalog.model_validate({"archetypes": [burst_only]})


def test_what_fits_is_drawn_however_unlikely_it_is_beside_gangs_that_do_not_fit() -> None:
    gangs = archetype("gangs", weight=1_000_000_000, gang={"scope": "sameRack", "groupSizeRange": [10_000, 10_000]})
    drawn = draw_demand([gangs, archetype("rare")], 10_500, 1, 0)
    assert drawn.pods == 10_500
    assert [workload.archetype.name for workload in drawn.workloads()][:2] == ["gangs", "rare"]


def test_seven_axes_of_a_thousand_values_are_counted() -> None:
    axes = [{"key": f"axis-{number}", "count": 1000} for number in range(7)]
    drawn = draw_demand([archetype("many", labelAxes=axes)], 1000, 1, 0)
    assert len({need.axes for need in needs_of(drawn, DENSITY)}) == len(drawn)

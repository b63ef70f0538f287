"""What the shard says of each cluster: what its engine holds and its inventory has, within bounds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.priority import OTHER
from bigfleet.core.requirements import (
    ZONE_KEY,
    NeedProfile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.core.vectors import Vector
from bigfleet.shard.inventory import claims
from bigfleet.shard.inventory.claims import ClusterClaims
from bigfleet.shard.inventory.inventory import Inventory

SAME = Requirement("rack", RequirementOperator.SAME)
HARD = Spread(ZONE_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)
SOFT = Spread(ZONE_KEY, 1, WhenUnsatisfiable.SCHEDULE_ANYWAY)


class World:
    """A shard's inventory and what it shows of its clusters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.claims = ClusterClaims(self.registry)
        self.inventory = Inventory(lambda: 0.0)
        self.fleet = self.inventory.machines.fleet

    def refresh(self) -> list[str]:
        """The clusters that were looked at."""
        return list(self.claims.changes(self.inventory))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"bigfleet_shard_{name}", labels)

    def demand(self, cluster: str = "c") -> dict[tuple[str, str, str], float]:
        (family,) = [one for one in self.registry.collect() if one.name == "bigfleet_shard_cluster_demand"]
        return {
            (sample.labels["resource"], sample.labels["priority_class"], sample.labels["kind"]): sample.value
            for sample in family.samples
            if sample.labels["cluster"] == cluster
        }


@pytest.fixture
def world() -> World:
    return World()


def need(
    aggregate: Vector,
    priority: int = 0,
    requirements: Sequence[Requirement] = (),
    spread: Sequence[Spread] = (),
    group: str = "",
    cluster: str = "c",
) -> Need:
    profile = NeedProfile.canonical(requirements, spread, priority, 0, 0)
    return Need(cluster, profile, aggregate, dict.fromkeys(aggregate, 1), group)


def configured(machine_id: str, cluster: str = "c", price: float = 0.5, **allocatable: int) -> Machine:
    return Machine(
        machine_id, MachineState.CONFIGURED, host="h", cluster=cluster, price_per_hour=price, allocatable=allocatable
    )


class TestDemand:
    def test_is_told_by_resource_class_and_kind_in_base_units(self, world: World) -> None:
        world.fleet.replace_needs(
            "c",
            [
                need({"cpu": 1_500, "memory": 8_000}, 1_000_000),
                need({"cpu": 500}, 1_000, spread=[HARD]),
                need({"cpu": 250}, 999, spread=[SOFT]),
                need({"cpu": 4_000}, 100, [SAME], [HARD], group="g1"),
                need({"cpu": 4_000}, 100, [SAME], [HARD], group="g2"),
                need({"cpu": 1_000}, 99, group="g"),
                need({"cpu": 2_000}, -5),
            ],
        )
        world.refresh()
        assert world.demand() == {
            ("cpu", "critical", "plain"): 1.5,
            ("memory", "critical", "plain"): 8.0,
            ("cpu", "service", "spread"): 0.5,
            ("cpu", "batch", "plain"): 0.25,
            ("cpu", "batch", "gang"): 8.0,
            ("cpu", "other", "gang"): 1.0,
            ("cpu", "other", "plain"): 2.0,
        }

    def test_that_is_withdrawn_reads_zero(self, world: World) -> None:
        world.fleet.replace_needs("c", [need({"cpu": 1_000}), need({"gpu": 8_000}, 1_000)])
        world.refresh()
        world.fleet.replace_needs("c", [need({"cpu": 3_000})])
        world.refresh()
        assert world.demand() == {("cpu", "other", "plain"): 3.0, ("gpu", "service", "plain"): 0.0}
        world.fleet.forget_needs("c")
        world.refresh()
        assert set(world.demand().values()) == {0.0}

    async def test_comes_with_the_age_of_blobs_that_its_operator_owes(self, world: World) -> None:
        world.fleet.replace_needs("c", [need({"cpu": 1_000})])
        world.refresh()
        await world.claims.refresh(world.inventory, {"c": 7.5, "unknown": 9.0})
        assert world.value("cluster_unanswered_seconds", cluster="c") == 7.5
        await world.claims.refresh(world.inventory, {})
        assert world.value("cluster_unanswered_seconds", cluster="c") == 0
        assert world.value("cluster_unanswered_seconds", cluster="unknown") is None

    def test_is_looked_at_again_only_where_it_changed(self, world: World) -> None:
        for cluster in ("c", "d"):
            world.fleet.replace_needs(cluster, [need({"cpu": 1_000}, cluster=cluster)])
        assert sorted(world.refresh()) == ["c", "d"]
        assert world.refresh() == []
        world.fleet.replace_needs("d", [need({"cpu": 2_000}, cluster="d")], [0])
        assert world.refresh() == ["d"]
        assert world.demand("d") == {("cpu", "other", "plain"): 2.0}

    def test_stays_the_same_when_the_engine_counts_in_other_units(self, world: World) -> None:
        world.fleet.replace_needs("c", [need({"cpu": 4_000})])
        world.refresh()
        world.fleet.replace_needs("d", [need({"cpu": 7, "gpu": 1_000}, cluster="d")])
        world.refresh()
        assert world.demand() == {("cpu", "other", "plain"): 4.0}

    def test_beyond_all_counting_is_still_a_number(self, world: World) -> None:
        world.fleet.replace_needs("c", [need({"cpu": 2**70}), need({"cpu": 2**70 + 1}, 1), need({"cpu": 1}, 2)])
        world.refresh()
        assert world.demand()["cpu", "other", "plain"] > 1e15

    _NEEDS = st.lists(
        st.builds(
            need,
            st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 10**6), max_size=3),
            st.sampled_from([-1, 0, 99, 100, 999, 1_000, 999_999, 1_000_000, 2**31 - 1]),
            st.sampled_from([(), (SAME,)]),
            st.sampled_from([(), (HARD,), (SOFT,)]),
            st.sampled_from(["", "g1", "g2"]),
        ),
        max_size=8,
        unique_by=lambda one: one.key,
    )

    @given(st.lists(_NEEDS, max_size=5))
    def test_agrees_with_the_needs_added_up_by_hand(self, rollups: list[list[Need]]) -> None:
        world = World()
        for needs in rollups:
            world.fleet.replace_needs("c", needs)
            world.refresh()
            totals: Counter[tuple[str, str, str]] = Counter()
            for one in needs:
                for name, milli in one.aggregate.items():
                    totals[name, by_hand(one.profile.priority), kind_by_hand(one)] += milli
            shown = {sort: round(amount * 1000) for sort, amount in world.demand().items()}
            assert {sort: milli for sort, milli in shown.items() if milli} == +totals


def by_hand(priority: int) -> str:
    if priority >= 1_000_000:
        return "critical"
    return "service" if priority >= 1_000 else "batch" if priority >= 100 else "other"


def kind_by_hand(one: Need) -> str:
    if one.group or one.profile.same:
        return "gang"
    return "spread" if HARD in one.profile.spread else "plain"


class TestMachines:
    def test_are_added_up_by_cluster(self, world: World) -> None:
        world.inventory.observe(configured("a", cpu=4_000, memory=1_000))
        world.inventory.observe(configured("b", price=0.25, cpu=2_000))
        world.inventory.observe(configured("x", "d", cpu=8_000))
        world.refresh()
        assert world.value("cluster_machines", cluster="c") == 2
        assert world.value("cluster_price_per_hour", cluster="c") == 0.75
        assert world.value("cluster_allocatable", cluster="c", resource="cpu") == 6.0
        assert world.value("cluster_allocatable", cluster="c", resource="memory") == 1.0
        assert world.value("cluster_allocatable", cluster="d", resource="cpu") == 8.0

    def test_that_are_gone_read_zero(self, world: World) -> None:
        world.inventory.observe(configured("a", cpu=4_000))
        world.refresh()
        world.inventory.vanish("a")
        world.refresh()
        assert world.value("cluster_machines", cluster="c") == 0
        assert world.value("cluster_price_per_hour", cluster="c") == 0
        assert world.value("cluster_allocatable", cluster="c", resource="cpu") == 0


class TestBounds:
    def test_resources_beyond_the_first_are_added_up(self, world: World) -> None:
        names = [f"r{number}" for number in range(claims.MAX_RESOURCES + 2)]
        world.fleet.replace_needs("c", [need(dict.fromkeys(names, 1_000)), need(dict.fromkeys(names, 1_000), 5)])
        world.inventory.observe(replace(configured("m"), allocatable=dict.fromkeys(names, 3_000)))
        world.refresh()
        assert len(world.demand()) == claims.MAX_RESOURCES + 1
        assert world.demand()[OTHER, "other", "plain"] == 4.0
        assert world.value("cluster_allocatable", cluster="c", resource="r0") == 3.0
        assert world.value("cluster_allocatable", cluster="c", resource=OTHER) == 6.0

    def test_a_resource_keeps_its_name(self, world: World) -> None:
        last = [f"r{number}" for number in range(1, claims.MAX_RESOURCES + 1)]
        world.fleet.replace_needs("c", [need(dict.fromkeys(last, 1_000))])
        world.refresh()
        world.fleet.replace_needs("c", [need(dict.fromkeys(["r0", *last], 1_000))])
        world.refresh()
        assert {resource for resource, _, _ in world.demand()} == {*last, OTHER}

    def test_clusters_beyond_the_first_are_only_counted(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(claims, "MAX_CLUSTERS", 2)
        assert world.value("clusters_not_shown") == 0
        for cluster in ("a", "b", "c", "d", "c"):
            world.claims.session_installed(cluster)
            world.claims.rollup_accepted(cluster)
        world.fleet.replace_needs("c", [need({"cpu": 1_000})])
        world.inventory.observe(configured("m", "e"))
        world.refresh()
        assert world.value("clusters_not_shown") == 3
        assert world.value("cluster_sessions_total", cluster="b") == 1
        for cluster in ("c", "d", "e"):
            assert world.value("cluster_sessions_total", cluster=cluster) is None
            assert world.value("cluster_machines", cluster=cluster) is None
        assert world.demand("c") == {}


class TestCounters:
    def test_begin_at_zero_with_the_first_word_on_a_cluster(self, world: World) -> None:
        world.inventory.observe(configured("m"))
        world.refresh()
        assert world.value("cluster_sessions_total", cluster="c") == 0
        assert world.value("cluster_rollups_total", cluster="c") == 0
        world.claims.session_installed("d")
        assert world.value("cluster_sessions_total", cluster="d") == 1
        assert world.value("cluster_rollups_total", cluster="d") == 0
        assert world.value("cluster_machines", cluster="d") == 0

    def test_count_each_cluster_by_itself(self, world: World) -> None:
        for cluster in ("a", "b", "a"):
            world.claims.session_installed(cluster)
            world.claims.rollup_accepted(cluster)
        assert world.value("cluster_sessions_total", cluster="a") == 2
        assert world.value("cluster_rollups_total", cluster="b") == 1


async def test_many_clusters_are_all_looked_at(world: World) -> None:
    for number in range(3 * claims._BATCH + 1):
        world.fleet.replace_needs(f"c{number}", [need({"cpu": 1_000}, cluster=f"c{number}")])
    await world.claims.refresh(world.inventory, {})
    assert all(world.demand(f"c{number}") for number in range(3 * claims._BATCH + 1))

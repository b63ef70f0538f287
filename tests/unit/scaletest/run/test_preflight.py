"""A plan that no run could bring to a verdict is refused before anything is started, with the reason."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.core.vectors import covers, scaled
from scaletest.errors import UsageError
from scaletest.model.demand.capacity import find_shortage, serves
from scaletest.model.documents.catalog import Archetype, Catalog
from scaletest.model.documents.profile import Profile
from scaletest.model.documents.substrate import Host, Substrate
from scaletest.model.plan import Plan, make_plan
from scaletest.run.steps.guard import DEFAULT_CAPS
from scaletest.run.steps.preflight import refusals_of_run, warnings_of
from tests.unit.plans import LAPTOP, refuse_the_impossible, shipped_plan, smoke_plan
from tests.unit.scaletest.model.test_draw import archetype
from tests.unit.scaletest.model.test_plan import changed

DENSITY = 10


def refusal(plan: Plan) -> UsageError:
    with pytest.raises(UsageError) as refused:
        refuse_the_impossible(plan)
    return refused.value


def load(plan: Plan, **fields: object) -> dict[str, object]:
    return plan.profile.load_profile.model_dump(by_alias=True, exclude_defaults=True) | fields


def test_smoke_is_sound() -> None:
    assert refusals_of_run(smoke_plan(), DEFAULT_CAPS) == []
    assert list(warnings_of(smoke_plan(160))) == []
    assert [line for line in warnings_of(smoke_plan()) if "is left out" not in line] == []


def test_seeds_that_can_never_cover_the_demand_name_the_archetype_and_the_missing_machines() -> None:
    plan = changed(smoke_plan(), seed={"configuredFraction": 0.5, "idleHeadroomFraction": 0.1})
    error = refusal(plan)
    assert "web needs 17 machines and 5 more to replace those that are lost" in error.message
    assert "missing" in error.message
    assert "speculativeMultiplier" in error.hint


def test_machines_of_another_shape_do_not_help() -> None:
    plan = changed(smoke_plan(), loadProfile=load(smoke_plan(), bursts=[]))
    gpu = plan.catalog["trainer"].model_dump(by_alias=True, exclude_defaults=True)
    demand = [a.model_dump(by_alias=True, exclude_defaults=True) for a in plan.catalog.demand]
    catalog = Catalog.model_validate({"demandArchetypes": demand, "seedArchetypes": [gpu]})
    made = make_plan(plan.profile, "mine", catalog, plan.substrate, "embedded", this_host=LAPTOP, soak_seconds=60)
    error = refusal(made)
    assert error.message.startswith("the seeded machines can never satisfy the demand: web needs 17 machines")
    assert error.hint.startswith("no seeded machine serves it")


def test_losses_count_because_a_lost_machine_does_not_come_back() -> None:
    refuse_the_impossible(changed(smoke_plan(), 3600))
    assert "can never satisfy" in refusal(changed(smoke_plan(), 7200)).message


def test_a_soak_that_brings_too_few_observations_says_what_to_raise() -> None:
    plan = smoke_plan()
    calm = refusal(changed(plan, shard={"failureRatePerSec": 0.0001}))
    assert "bring about 0 replacements; the gate shardConfigurePhaseP99Seconds needs 10" in calm.message
    assert "--duration longer" in calm.hint
    burst = load(plan, bursts=[{"atSeconds": 60, "archetype": "web", "extraTarget": 2, "durationSeconds": 60}])
    long = refusal(changed(plan, 600, shard={"failureRatePerSec": 0.0001}, loadProfile=burst))
    assert "the last 5m00s of the soak" in long.message
    assert "--duration" not in long.hint, "the window does not grow with the soak"
    assert "failureRatePerSec" in calm.hint
    still = changed(plan, shard={"failureRatePerSec": 0}, slo=OFF, loadProfile=load(plan, churnPerMinute=0))
    assert "endToEndPodBindP50Seconds" in refusal(still).message
    refuse_the_impossible(changed(plan, loadProfile=load(plan, churnPerMinute=0, mode="cr")))


def test_a_soak_of_no_seconds_brings_no_observations() -> None:
    assert "about 0 " in refusal(changed(smoke_plan(), 0)).message


def test_losses_after_the_shed_say_nothing_about_replacements() -> None:
    """They need not be replaced, so only those before it are observations of that gate."""
    plan = smoke_plan(160)
    until_the_shed = 70
    enough = 11 / (plan.demand.total_machines * until_the_shed)
    refuse_the_impossible(changed(plan, 160, shard={"failureRatePerSec": enough}))
    few = refusal(changed(plan, 160, shard={"failureRatePerSec": enough * 0.8}))
    assert few.message == (
        "the soak up to the first step downwards brings about 8 replacements; the gate lossReplacedP99Seconds needs 10"
    )
    assert few.hint.startswith("raise shard.failureRatePerSec")


OFF = {
    "shardConfigurePhaseP99Seconds": None,
    "bootstrapSuccessRatio": None,
    "operatorNodeStateUpdateP99Seconds": None,
}


def test_scarcity_must_be_scarce_and_preemption_must_have_to_preempt() -> None:
    plan = smoke_plan()
    assert "nothing will be short" in refusal(changed(plan, slo=OFF | {"expectStandingShortfall": True})).message
    scarce = changed(
        plan, slo=OFF | {"expectStandingShortfall": True}, seed={"configuredFraction": 0.5}, loadProfile=load(plan)
    )
    refuse_the_impossible(scarce)
    burst = {"atSeconds": 1, "archetype": "api", "extraTarget": 1000}
    eager = changed(plan, slo={"expectPreemptions": True}, loadProfile=load(plan, bursts=[burst]))
    assert "nothing has to be preempted" in refusal(eager).message
    tight = {"configuredFraction": 1.0, "speculativeCount": 100}
    refuse_the_impossible(
        changed(plan, slo={"expectPreemptions": True}, seed=tight, loadProfile=load(plan, bursts=[burst]))
    )


def test_only_the_class_that_may_be_short_may_be_short() -> None:
    plan = smoke_plan()
    confined = OFF | {"expectStandingShortfall": True, "shortfallConfinedBelow": "batch"}
    # web is batch; api and trainer are not, and half their machines are missing whatever happens to web.
    short = refusal(changed(plan, slo=confined, seed={"configuredFraction": 0.5}))
    assert "can never satisfy the demand above batch" in short.message
    assert "web" not in short.message.split(":")[1]
    above = OFF | {"expectStandingShortfall": True, "shortfallConfinedBelow": "critical"}
    refuse_the_impossible(changed(plan, slo=above, seed={"configuredFraction": 0.5}))


def test_a_shed_that_never_happens_is_a_warning() -> None:
    plan = smoke_plan()
    shed = [{"atSeconds": 600, "targetMultiplier": 0.5}]
    late = changed(plan, 300, loadProfile=load(plan, scaleDowns=shed))
    assert "the shed to 0.5 at 600 s never happens: the soak ends after 5m00s" in list(warnings_of(late))
    inside = changed(plan, 800, loadProfile=load(plan, scaleDowns=shed))
    assert any("falls into the last 5m00s of the soak" in line for line in warnings_of(inside))


def test_a_fault_that_would_miss_is_refused() -> None:
    plan = smoke_plan()
    late = [{"atSeconds": 60, "action": "kill-coordinator-leader"}]
    assert "after the soak" in refusal(changed(plan, runnerActions=late)).message
    nobody = [{"atSeconds": 1, "action": "kill-shard-bigfleet-shard-1"}]
    assert "there is no bigfleet-shard-1" in refusal(changed(plan, runnerActions=nobody)).message
    with pytest.raises(ValueError, match="unknown action"):
        changed(plan, runnerActions=[{"atSeconds": 1, "action": "kill-everything"}])


def test_all_that_speaks_against_a_plan_is_said_at_once() -> None:
    plan = smoke_plan()
    late = [{"atSeconds": 99, "action": "kill-shard-bigfleet-shard-1"}]
    message = refusal(changed(plan, shard={"failureRatePerSec": 0}, rampBudget="1s", runnerActions=late)).message
    for reason in ("after the soak", "there is no bigfleet-shard-1", "0 replacements", "its budget is 1s"):
        assert reason in message


def test_a_gang_that_fits_into_no_cluster_does_not_drop_out_in_silence() -> None:
    plan = changed(smoke_plan(), loadProfile=load(smoke_plan(), bursts=[]))
    gang = plan.catalog["trainer"].model_dump(by_alias=True, exclude_defaults=True)
    gang["gang"] |= {"groupSizeRange": [100, 200]}
    web = plan.catalog["web"].model_dump(by_alias=True, exclude_defaults=True)
    for archetypes, sentence in ((([web, gang]), "has 100 Pods, a cluster 40"), (([gang]), "nothing is asked for")):
        catalog = Catalog.model_validate({"archetypes": archetypes})
        made = make_plan(plan.profile, "mine", catalog, plan.substrate, "embedded", this_host=LAPTOP, soak_seconds=60)
        assert sentence in refusal(made).message


def test_this_machine_must_have_the_memory() -> None:
    plan = smoke_plan()
    small = Host(v_cpu=2, memory_gi_b=2)
    made = make_plan(plan.profile, "mine", plan.catalog, plan.substrate, "embedded", this_host=small, soak_seconds=60)
    assert "GiB are needed at once, this machine has 2 GiB" in refusal(made).message


def test_more_pods_on_a_core_than_a_run_was_seen_to_pass_with_are_a_warning_and_no_refusal() -> None:
    large = shipped_plan("dev-500")
    (warning,) = warnings_of(large)
    assert warning.startswith("50,000 Pods on 2 cores are 25,000 a core; 2,500 a core have passed")
    assert "docs/results.md" in warning
    assert refusals_of_run(large, DEFAULT_CAPS) == []
    assert list(warnings_of(shipped_plan("dev-50"))) == [], "that is what was measured"


def test_cores_are_only_counted_where_all_of_a_run_shares_them() -> None:
    plan, kind = shipped_plan("dev-500"), shipped_plan("dev-500", "example-kind-laptop")
    roomy = Host(v_cpu=20, memory_gi_b=24)
    made = make_plan(plan.profile, "mine", plan.catalog, plan.substrate, "embedded", this_host=roomy)
    assert list(warnings_of(made)) == []
    single = make_plan(
        plan.profile, "mine", plan.catalog, plan.substrate, "embedded", this_host=Host(v_cpu=1, memory_gi_b=24)
    )
    assert any(line.startswith("50,000 Pods on 1 core are 50,000 a core") for line in warnings_of(single))
    assert list(warnings_of(kind)) == []


def test_what_is_not_built_yet_can_be_planned_but_not_run() -> None:
    plan = smoke_plan()
    strikes = [{"atSeconds": 30, "action": "kill-coordinator-leader"}]
    asking = changed(plan, seed={"preBind": True, "speculativeMultiplier": 3}, runnerActions=strikes)
    refuse_the_impossible(asking)
    (refused,) = refusals_of_run(asking, DEFAULT_CAPS)
    assert refused.message == "not built yet: runnerActions"


def test_a_run_of_several_shards_is_not_refused() -> None:
    assert list(refusals_of_run(shipped_plan("smoke-2shard"), DEFAULT_CAPS)) == []


def test_warnings_are_plain() -> None:
    plan = smoke_plan()
    slow = plan.substrate.model_dump(by_alias=True, exclude_defaults=True)
    slow["cluster"] |= {"bindThroughputPodsPerSec": 0.1, "nodeLeaseSeconds": 40}
    slow["host"] = {"vCPU": 1, "memoryGiB": 1}
    slow["hostKind"] = "context"
    slow["kwokPod"]["limits"] = {"cpu": "4", "memory": "256Mi"}
    slow["kwokPod"]["requests"]["cpu"] = "4"
    substrate = Substrate.model_validate(slow | {"apiVersion": "bigfleet.io/scaletest/v1", "kind": "Substrate"})
    settle = Profile.model_validate(
        plan.profile.model_dump(by_alias=True, exclude_defaults=True)
        | {"loadProfile": load(plan, settleSeconds=60, churnPerMinute=0.001)}
    )
    made = make_plan(settle, "mine", plan.catalog, substrate, "slow", this_host=LAPTOP, soak_seconds=60)
    text = "\n".join(warnings_of(made))
    for sentence in (
        "the ramp asks for 1.3 Pods/s",
        "a host has 1 and 1",
        "a host has 1 GiB",
        "more lease traffic than work",
        "settleSeconds",
    ):
        assert sentence in text
    assert "kwokPod.limits.memory is 256Mi" in text


def shape(name: str, types: list[str], cpu: int) -> Archetype:
    return archetype(name, instanceTypes=types, podsPerNode=1, resources={"cpu": str(cpu)})


def test_two_archetypes_that_share_machines_compete_for_them() -> None:
    kinds = {a.name: a for a in (shape("one", ["x"], 1), shape("two", ["x", "y"], 1))}
    # Each alone could be served, both together not.
    short = find_shortage({"one": 6, "two": 6}, kinds, {"one": 8}, kinds, DENSITY)
    assert short is not None
    assert short.archetypes == ("one", "two")
    assert (short.asked_machines, short.missing_machines) == (12, 4)
    assert find_shortage({"one": 6, "two": 6}, kinds, {"one": 8, "two": 8}, kinds, DENSITY) is None


def test_machines_serve_by_type_zone_room_and_axes() -> None:
    small, large = shape("small", ["x"], 1), shape("large", ["x", "y"], 4)
    assert serves(large, small, DENSITY) == 0.5, "half of the large ones are of type x"
    assert serves(small, large, DENSITY) == 0.0, "too small for one Pod"
    elsewhere = archetype("far", instanceTypes=["x"], zones=["zone-b"], resources={"cpu": "1"})
    assert serves(elsewhere, small, DENSITY) == 0.0
    axes = archetype("axes", instanceTypes=["x"], resources={"cpu": "1"}, labelAxes=[{"key": "team", "count": 2}])
    assert serves(small, axes, DENSITY) == 0.0
    assert serves(axes, axes, DENSITY) == 1.0


@given(
    demand=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    supply=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    types=st.lists(st.sets(st.sampled_from("xyz"), min_size=1), min_size=3, max_size=3),
)
@settings(max_examples=60)
def test_what_some_assignment_can_serve_is_never_refused(
    demand: list[int], supply: list[int], types: list[set[str]]
) -> None:
    """The check is a necessary condition: brute force over all assignments must agree whenever it finds one."""
    kinds = {f"k{i}": shape(f"k{i}", sorted(types[i]), 1) for i in range(3)}
    names = list(kinds)
    asked, had = dict(zip(names, demand, strict=True)), dict(zip(names, supply, strict=True))
    fits = {(m, a): serves(kinds[m], kinds[a], DENSITY) == 1.0 for m, a in itertools.product(names, names)}
    if _assignable([n for n in names for _ in range(asked[n])], dict(had), fits):
        assert find_shortage(asked, kinds, had, kinds, DENSITY) is None
    if sum(demand) > sum(supply):
        assert find_shortage(asked, kinds, had, kinds, DENSITY) is not None


def _assignable(wanted: list[str], had: dict[str, int], fits: dict[tuple[str, str], bool]) -> bool:
    if not wanted:
        return True
    first, *rest = wanted
    for machine, count in had.items():
        if count and fits[machine, first] and _assignable(rest, had | {machine: count - 1}, fits):
            return True
    return False


def test_room_is_compared_in_every_dimension() -> None:
    want = {"cpu": 4, "memory": 1}
    assert not covers(scaled({"cpu": 2}, 2), want)

"""`simulate` predicts a run from the same draw, seeds and requests, without Kubernetes."""

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.core.machines import MachineState
from scaletest.cli.app import main
from scaletest.cluster.fleet_file import render_fleet
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.errors import NotSteady
from scaletest.model.demand.draw import draw_demand
from scaletest.model.documents.profile import Burst, DemandStep, RunnerAction
from scaletest.model.plan import Plan
from scaletest.run.offline.simulate import Prediction, simulate
from scaletest.run.offline.virtual_fleet import seeded_machines, virtual_fleet
from tests.unit.plans import shipped_plan, smoke_plan


@pytest.fixture(scope="module")
def smoke() -> Prediction:
    return simulate(smoke_plan())


def changed(plan: Plan, section: str, **fields: Any) -> Plan:
    part = getattr(plan.profile, section).model_copy(update=fields)
    return replace(plan, profile=plan.profile.model_copy(update={section: part}))


def test_smoke_settles_and_keeps_the_bars_that_can_be_simulated(smoke: Prediction) -> None:
    assert smoke.passes
    assert smoke.steady_after_seconds <= 60
    assert smoke.pods_bound == smoke.pods == 80
    assert {gate.key for gate in smoke.gates} == {
        "loadgenPodsActive",
        "shardConfigurePhaseP99Seconds",
        "bootstrapSuccessRatio",
        "shardShortfalls",
        "reclaimActionsDuringSoak",
        "preemptionsAtSteadyDemand",
    }
    assert "roll-up p99" in smoke.left_out


def test_a_burst_is_predicted_to_be_covered_and_given_back() -> None:
    predicted = {gate.key: gate for gate in simulate(smoke_plan(160)).gates}
    assert predicted["stepCoveredSeconds"].verdict == predicted["shedReturnedSeconds"].verdict == "pass"
    returned_seconds = predicted["shedReturnedSeconds"].value
    assert returned_seconds is not None
    assert 0 < returned_seconds <= 90
    assert predicted["machinesHeld"].verdict == "pass"


def test_the_losses_are_those_that_the_plan_expects_and_each_is_replaced(smoke: Prediction) -> None:
    plan = smoke_plan()
    assert abs(smoke.machines_lost - plan.losses(60)) <= 2
    assert smoke.machines_lost <= smoke.soak.bootstraps + 2
    assert smoke.soak.reclaims <= 2


def test_the_same_plan_gives_the_same_prediction(smoke: Prediction) -> None:
    assert simulate(smoke_plan()) == smoke


def test_the_machines_are_those_of_the_seed_file() -> None:
    plan = shipped_plan("dev-50")
    document = render_fleet(plan.load_profile, plan.seeding)
    machines = list(seeded_machines(document))
    assert len(machines) == sum(batch["count"] for batch in document["machines"])
    bound = [machine for machine in machines if machine.state is MachineState.CONFIGURED]
    assert len(bound) == plan.seeded["configured"]
    assert all(machine.cluster and machine.assignment.priority for machine in bound)


def test_the_pods_ask_for_what_the_real_ones_ask_for() -> None:
    plan = smoke_plan()
    load = plan.load_profile
    simulation = virtual_fleet(plan, 10)
    for ordinal, cluster in enumerate(simulation.clusters.values()):
        drawn = list(draw_demand(load.archetypes, load.target, load.seed, ordinal).workloads())
        assert cluster.pods == sum(workload.replicas for workload in drawn)
        gang = next(workload for workload in drawn if workload.group)
        pods = pods_of(gang)
        assert pods.profile.same is not None
        assert gang.group in pods.group
        assert pods.resources["nvidia.com/gpu"] == 8000
        assert {need.group for need in cluster.rollup()} == {pods_of(workload).group for workload in drawn}


def test_a_fleet_that_is_too_small_is_said_not_to_settle() -> None:
    plan = smoke_plan()
    seed = {"idle_headroom_fraction": 0.0, "speculative_multiplier": 0}
    with pytest.raises(NotSteady, match="undersupply"):
        simulate(changed(plan, "seed", **seed))


def test_a_shed_of_demand_is_reclaimed() -> None:
    plan = smoke_plan(120)
    step = DemandStep(at_seconds=10, target_multiplier=0.5)
    shed = changed(changed(plan, "load_profile", demand_steps=(step,)), "shard", failure_rate_per_sec=0.0)
    prediction = simulate(shed)
    assert prediction.soak.reclaims > 10
    assert prediction.pods < 60


@pytest.mark.parametrize(("archetype", "extra", "machines"), [("web", 12, 6), ("trainer", 1, 3)])
def test_a_burst_is_bought_for_and_given_back(archetype: str, extra: int, machines: int) -> None:
    burst = Burst(at_seconds=5, archetype=archetype, extra_target=extra, duration_seconds=60)
    quiet = changed(smoke_plan(180), "load_profile", churn_per_minute=0.0, bursts=(burst,))
    prediction = simulate(changed(quiet, "shard", failure_rate_per_sec=0.0))
    assert prediction.soak.bootstraps >= 2 * machines - 1  # two clusters
    assert prediction.soak.reclaims >= 2 * machines - 1
    assert prediction.pods == 80


def test_a_shard_that_is_killed_in_the_soak_takes_nothing_away() -> None:
    plan = changed(smoke_plan(), "shard", failure_rate_per_sec=0.0)
    action = RunnerAction(at_seconds=20, action="kill-shard-bigfleet-shard-0")
    killed = replace(plan, profile=plan.profile.model_copy(update={"runner_actions": (action,)}))
    assert simulate(killed).soak.reclaims <= 1


def test_without_losses_and_churn_nothing_is_decided_in_the_soak() -> None:
    quiet = changed(smoke_plan(), "load_profile", churn_per_minute=0.0)
    prediction = simulate(changed(quiet, "shard", failure_rate_per_sec=0.0))
    assert set(vars(prediction.soak).values()) <= {0}
    assert {gate.key: gate.verdict for gate in prediction.gates}["bootstrapSuccessRatio"] == "no-data"
    assert not prediction.passes


def test_the_command_prints_bars_first_or_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scaletest-runner", "simulate", "--profile", "smoke"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "✓ reclaims at steady demand" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["scaletest-runner", "simulate", "--profile", "smoke", "-o", "json"])
    with pytest.raises(SystemExit):
        main()
    document = json.loads(capsys.readouterr().out)
    assert document["passes"] is True
    assert document["soak"]["bootstraps"] >= 10

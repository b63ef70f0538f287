"""Facts that have to stand more than once, because a chart, a page or a room that borrows nothing says them too."""

import ast
import re
from dataclasses import MISSING, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.coordinator import tenure
from bigfleet.core import machines, priority
from bigfleet.core.machines import LEGAL_EDGES, MachineState, Transition
from bigfleet.engine import TRANSITION_OF, ActionKind
from bigfleet.operator.options import ROLLUP_SECONDS, OperatorOptions
from bigfleet.podcontroller.process import PodControllerOptions
from bigfleet.provider.conformance.checks import walk
from bigfleet.provider.kit.transitions import TRANSITIONS
from bigfleet.security import renewal
from bigfleet.security.authority import LEAF_LIFETIME
from bigfleet.shard import cycle, reports
from bigfleet.shard.options import IdleHolds, ShardOptions
from bigfleet.sim.scenario.scenario import EngineSection
from bigfleet.sim.world import shard as simulated
from bigfleet.sim.world.simulation import WorldModel
from scaletest.cluster import ports
from scaletest.cluster.nodes import node_creator
from scaletest.cluster.witness import coverage, needs
from scaletest.cluster.workload import WorkloadOptions
from scaletest.exit_codes import ExitCode
from scaletest.judge import outcome
from scaletest.model import names, plan
from scaletest.model.demand import seeding
from scaletest.model.documents import profile
from scaletest.toolchain.tools import GO_TOOLS

ROOT = Path(__file__).parents[3]
CHART: dict[str, Any] = yaml.safe_load((ROOT / "chart/values.yaml").read_text())


def page(name: str) -> str:
    return (ROOT / name).read_text()


def template(name: str) -> str:
    return page(f"chart/templates/{name}")


def test_how_often_demand_is_rolled_up() -> None:
    simulated_engine = {one: field.default for one, field in EngineSection.model_fields.items()}
    assert {
        OperatorOptions.rollup_interval_seconds,
        WorkloadOptions.operator_rollup_interval_seconds,
        WorldModel.rollup_seconds,
        simulated_engine["rollup_seconds"],
        plan._ROLLUP_SECONDS,
        CHART["operator"]["rollupIntervalSeconds"],
    } == {ROLLUP_SECONDS}
    assert f"every `--rollup-interval-seconds` ({ROLLUP_SECONDS:g})" in page("docs/reference/engine.md")


def test_what_the_chart_leaves_to_the_processes_in_a_cluster() -> None:
    assert [CHART["operator"][key] for key in ("qps", "burst", "ackConcurrency")] == [
        OperatorOptions.qps,
        OperatorOptions.burst,
        OperatorOptions.ack_concurrency,
    ]
    assert [CHART["podController"][key] for key in ("qps", "burst")] == [
        PodControllerOptions.qps,
        PodControllerOptions.burst,
    ]
    assert [CHART["nodeCreator"][key] for key in ("bootDelayMedianSeconds", "bootDelayP99Seconds")] == [
        WorkloadOptions.boot_delay_median_seconds,
        WorkloadOptions.boot_delay_p99_seconds,
    ]


def test_what_the_chart_and_a_plan_expect_of_a_shard() -> None:
    shard = CHART["shard"]
    assert shard["listPageSize"] == ShardOptions.list_page_size
    assert shard["fullReconcileIntervalSeconds"] == ShardOptions.full_reconcile_interval_seconds
    assert shard["idleHoldOnDemandSeconds"] == IdleHolds.on_demand_seconds == plan._IDLE_HOLD_SECONDS
    assert shard["coordinatorHeartbeatIntervalSeconds"] == plan._REPORT_SECONDS
    assert ShardOptions.cycle_interval_seconds == plan._CYCLE_SECONDS


def test_the_simulator_paces_its_cycles_as_the_shard_does() -> None:
    assert simulated._WATCH_SECONDS == cycle._WATCH_SECONDS
    assert simulated._SHORTEST_GAP_SECONDS == cycle._SHORTEST_GAP_SECONDS


def test_a_report_carries_as_many_shortfalls_as_the_coordinator_keeps() -> None:
    assert reports._MAX_SHORTFALLS == tenure._MAX_SHORTFALLS


def test_a_certificate_is_renewed_when_the_plan_thinks_so() -> None:
    assert timedelta(seconds=plan._RENEWAL_SECONDS) == LEAF_LIFETIME * renewal._PART


def test_a_transition_keeps_to_the_legal_edges() -> None:
    transitions = {one for one in vars(machines).values() if isinstance(one, Transition)}
    assert len(transitions) == 4
    assert set(TRANSITIONS.values()) == set(TRANSITION_OF.values()) == transitions
    assert set(TRANSITION_OF) == set(ActionKind)
    for source, through, target in transitions:
        assert through in LEGAL_EDGES[source]
        assert target in LEGAL_EDGES[through]
    assert {one.through for one in transitions} == set(machines.TRANSITIONAL)
    ways_out = {(one.source, one.through) for one in transitions}
    assert ways_out == {
        (state, after) for state, edges in LEGAL_EDGES.items() if state not in machines.TRANSITIONAL for after in edges
    }
    assert LEGAL_EDGES[MachineState.FAILED] == ()


def test_the_conformance_suite_expects_the_same_transitions() -> None:
    assert {kind.value: (one.source, one.target) for kind, one in TRANSITIONS.items()} == walk.EDGES


def test_the_names_of_priority_classes() -> None:
    assert priority.PRIORITY_CLASSES == needs._PRIORITY_CLASSES
    assert {name: number for number, name in priority.PRIORITY_CLASSES} == profile.PRIORITY_CLASSES


def test_what_a_node_of_a_machine_looks_like() -> None:
    assert node_creator.NODE_PREFIX == coverage.NODE_PREFIX
    assert node_creator.DEFAULT_PODS == seeding._PODS_PER_MACHINE_LIMIT


@pytest.mark.parametrize(
    ("file", "port"),
    [
        ("shard.yaml", names.SHARD_PORT),
        ("coordinator.yaml", names.COORDINATOR_PORT),
        ("provider.yaml", names.PROVIDER_PORT),
    ],
)
def test_a_port_that_the_runner_asks_is_the_charts(file: str, port: int) -> None:
    assert f"--listen=$(POD_IP):{port}\n" in template(file)
    assert re.search(rf"ports: \[{port}[],]", template("_flows.tpl"))


def test_the_ports_in_a_cluster_are_the_charts() -> None:
    scraped = re.search(r"to: kwok-cluster, ports: \[([\d, ]+)\]", template("_flows.tpl"))
    assert scraped
    ours = {ports.OPERATOR_PORT, ports.LOAD_DRIVER_PORT, ports.POD_CONTROLLER_PORT, ports.NODE_CREATOR_PORT}
    assert ours < {int(port) for port in scraped[1].split(",")}
    assert f'"port" {ports.HEALTH_PORT}' in template("kwok-cluster.yaml")


def test_prometheus_in_the_chart_is_the_toolchains() -> None:
    assert CHART["image"]["prometheus"]["tag"] == f"v{GO_TOOLS['prometheus'].module.release}"


def test_the_run_is_told_through_the_config_map_that_load_drivers_may_read() -> None:
    assert f"resourceNames: [{names.RUN_CONFIG_MAP}]" in template("run-reader.yaml")
    assert f"--run-config-map={names.RUN_CONFIG_MAP}\n" in template("provider.yaml")


def test_the_readme_lists_every_exit_code() -> None:
    table = page("README.md").partition("| exit code | meaning |")[2].partition("\n\n")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == sorted(ExitCode)


def test_the_exit_code_that_wins_is_that_of_the_decision() -> None:
    said = re.search(r"the first that holds: ([^.]+)\.", page("docs/adr/0019-when-the-harness-is-to-blame.md"))
    assert said
    codes = [int(number) for number in re.findall(r"\b\d+\b", said[1])]
    certain, passed = codes.pop(codes.index(1)), codes.pop()
    assert (certain, passed) == (ExitCode.GATE_FAILED, ExitCode.PASSED)
    assert codes == list(outcome._PRECEDENCE)


@pytest.mark.parametrize("package", ["bigfleet", "scaletest"])
def test_an_error_names_its_exit_code(package: str) -> None:
    """As a member of ExitStatus or ExitCode, so that what a number means stands once."""
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, int)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == "exit_code"
    ]
    # What a pod's container ends with: whose process died.
    assert {one.rpartition(":")[0] for one in bare} <= {"scaletest/cluster/deaths.py"}


def test_options_have_their_defaults_on_the_class() -> None:
    """The tests above read them there."""
    for options in (OperatorOptions, PodControllerOptions, ShardOptions, WorkloadOptions):
        for field in fields(options):
            assert field.default is MISSING or getattr(options, field.name) == field.default

"""The thread: one Pod's whole way on the real parts, judged, evidenced, and nothing left behind."""

import asyncio
import json
import math
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator

import pytest

from bigfleet.provider.fake.ledger.file import count_ledger
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.hops import HOPS, Hop
from scaletest.report.dashboard.panels import queries_of
from scaletest.report.dashboard.stored import STORED
from tests.smoke.runs import FinishedRun, command, run, shared_machine
from tests.unit.plans import smoke_plan

Query = Callable[[str], list[float]]


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    directory = tmp_path_factory.mktemp("smoke")
    substrate = str(shared_machine(directory))
    return asyncio.run(run(directory / "results", "--profile", "smoke", "--substrate", substrate, "--duration", "1m"))


@pytest.fixture(scope="module")
def query(thread: FinishedRun) -> Iterator[Query]:
    """Asks the run's own Prometheus again, as `replay` serves it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scaletest.cli", "replay", str(thread.output)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    found = re.search(r"at (http://127\.0\.0\.1:\d+) ", process.stdout.readline())
    assert found
    url = found.group(1)
    at = thread.summary["windows"]["soakEnd"]

    def ask(expression: str) -> list[float]:
        parameters = urllib.parse.urlencode({"query": expression, "time": at})
        with urllib.request.urlopen(f"{url}/api/v1/query?{parameters}", timeout=10) as answer:
            return [float(row["value"][1]) for row in json.load(answer)["data"]["result"]]

    try:
        yield ask
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        process.stdout.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=2)


def test_the_run_passes_and_its_exit_code_tells_so(thread: FinishedRun) -> None:
    assert thread.summary["passed"], thread.screen
    assert thread.exit_code == thread.summary["exitCode"] == 0


def test_every_gate_was_measured_and_passed(thread: FinishedRun) -> None:
    gates = {gate["key"]: gate["verdict"] for gate in thread.summary["gates"]}
    assert gates.keys() == {gate.key for gate in gates_for(smoke_plan(60))}
    assert set(gates.values()) == {"pass"}, thread.screen
    assert thread.summary["unmeasuredSLOs"] == []


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: f"{hop.row}-{hop.actor}")
def test_the_flow_passed_every_hop(query: Query, hop: Hop) -> None:
    [passed] = query(hop.query)
    assert passed > 0


@pytest.mark.parametrize(
    "series",
    [
        "sum(scaletest_loadgen_cr_active)",
        "sum(scaletest_loadgen_cr_target)",
        "sum(bigfleet_operator_rollup_duration_seconds_count)",
        'sum(bigfleet_operator_rollup_phase_duration_seconds_count{phase="build"})',
        "sum(bigfleet_operator_acknowledge_duration_seconds_count)",
        "sum(bigfleet_shard_cycle_duration_seconds_count)",
        'sum(bigfleet_shard_cycle_phase_duration_seconds_count{phase="phase1"})',
        "sum(bigfleet_shard_request_bootstrap_seconds_count)",
        "sum(bigfleet_shard_configure_phase_seconds_count)",
        "sum(bigfleet_operator_node_state_update_duration_seconds_count)",
        "sum(bigfleet_scaletest_node_creator_upcoming_to_node_latency_seconds_count)",
        "sum(bigfleet_scaletest_node_creator_bound_pods)",
        "sum(bigfleet_scaletest_pod_bind_latency_steady_seconds_count)",
    ],
)
def test_every_metric_of_the_hop_table_has_data(query: Query, series: str) -> None:
    [value] = query(series)
    assert value > 0


def test_the_shard_decided_in_machine_code(query: Query) -> None:
    assert query("min(bigfleet_shard_engine_compiled)") == [1]


def test_every_bind_was_kube_schedulers_own(query: Query) -> None:
    [scheduled] = query('sum(scheduler_schedule_attempts_total{result="scheduled"})')
    [bindings] = query('sum(apiserver_request_total{resource="pods",subresource="binding"})')
    assert bindings == scheduled > 80


def test_the_profile_caused_what_it_gates(thread: FinishedRun) -> None:
    metrics = thread.summary["metrics"]
    assert metrics["provisions"] >= 10
    assert metrics["bootstraps"] >= 30
    assert metrics["machinesLost"] >= 10


def test_the_evidence_is_whole(thread: FinishedRun) -> None:
    names = {path.name for path in thread.output.iterdir()}
    assert {
        *("plan.json", "rendered-values.yaml", "events.jsonl", "summary.json"),
        *("prometheus-snapshot.tar.gz", "ledger.jsonl"),
    } <= names
    assert thread.summary["snapshot"]["samples"] > 10_000
    assert thread.summary["ledger"] == count_ledger(thread.output / "ledger.jsonl")
    assert thread.summary["ledger"]["strikes"] >= 10
    assert thread.summary["ledger"]["violations"] == 0
    kept = b"".join(path.read_bytes() for path in thread.output.rglob("*") if path.is_file())
    assert b"PRIVATE KEY" not in kept


def test_nothing_is_left_behind(thread: FinishedRun) -> None:
    assert thread.leftovers() == []
    assert not list(thread.output.glob("*.partial"))


# Steady demand drains nothing, so the quantile of its observations is NaN, which says that the series is there.
_NEVER_IN_A_GOOD_RUN = "bigfleet_shard_drain_phase_seconds"


@pytest.mark.parametrize(("panel", "expression"), list(queries_of(json.loads(STORED.read_text()))))
def test_every_panel_of_the_dashboard_has_data(query: Query, panel: str, expression: str) -> None:
    values = query(expression)
    assert values, panel
    assert any(map(math.isfinite, values)) or _NEVER_IN_A_GOOD_RUN in expression, panel


def test_evidence_can_be_judged_again_and_says_the_same(thread: FinishedRun) -> None:
    screen = asyncio.run(command("check", str(thread.output)))
    assert "PASSED" in screen
    assert screen.rstrip().endswith("changed since the run ended passed\n  nothing")


def test_the_gates_were_sampled_through_the_soak(thread: FinishedRun) -> None:
    samples = thread.summary["gateSamples"]
    assert len(samples) >= 3
    keys = {key for sample in samples for key in sample["gates"]}
    assert keys >= {gate["key"] for gate in thread.summary["gates"] if gate["source"] == "PromQL"}


def test_ci_systems_get_a_junit_file(thread: FinishedRun) -> None:
    suite = ElementTree.parse(thread.output / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    names = {case.get("name") for case in suite.iter("testcase")}
    assert names >= {gate["title"] for gate in thread.summary["gates"]}

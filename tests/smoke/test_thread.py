"""The thread: one Pod's whole way on the real parts, judged, evidenced, and nothing left behind.

Two shards share the provider, each with a cluster of its own, and three coordinators say which racks are whose.
"""

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

from bigfleet.provider.fake.ledger.file import count_ledger, read_entries
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.hops import HOPS, Hop
from scaletest.report.dashboard.panels import queries_of
from scaletest.report.dashboard.stored import STORED
from tests.smoke.runs import FinishedRun, command, run, shared_machine
from tests.unit.plans import shipped_plan

PROFILE = "smoke-2shard"

Query = Callable[[str], list[float]]


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    directory = tmp_path_factory.mktemp("smoke")
    substrate = str(shared_machine(directory))
    flags = ("--profile", PROFILE, "--substrate", substrate, "--duration", "1m")
    return asyncio.run(run(directory / "results", *flags))


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
    assert gates.keys() == {gate.key for gate in gates_for(shipped_plan(PROFILE, soak_seconds=60))}
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


def test_each_shard_has_machines_and_a_cluster_of_its_own(query: Query, thread: FinishedRun) -> None:
    known = query("sum by (pod) (bigfleet_shard_inventory_machines)")
    seeded = sum(thread.summary["scale"]["seeded"].values())
    assert len(known) == 2
    assert min(known) > 0
    assert sum(known) == seeded, "no machine is known to both, and none to neither"
    clusters = "count by (cluster) (bigfleet_shard_cluster_machines > 0)"
    assert query(clusters) == [1, 1], "each cluster is served by one shard"
    assert query("count by (pod) (sum by (pod, cluster) (bigfleet_shard_cluster_machines > 0))") == [1, 1]


def test_one_of_three_coordinators_leads_and_each_shard_owns_its_racks(query: Query, thread: FinishedRun) -> None:
    assert sorted(query("bigfleet_coordinator_is_leader")) == [0, 0, 1]
    owners = shipped_racks()
    for entry in read_entries(thread.output / "ledger.jsonl"):
        if entry.get("answer") == "OK" and entry.get("machine"):
            assert owners[rack_in(entry["machine"])] == entry["shard"]


def shipped_racks() -> dict[str, str]:
    """Rack → shard, as the coordinators were told, by the part of a machine's name that says where it stands."""
    domains = shipped_plan(PROFILE).values("run")["coordinator"]["domains"]
    return {domain["value"].replace("-rack-", "-r"): domain["shard"] for domain in domains}


def rack_in(machine: str) -> str:
    """`c0-1-conf-api-zone-c-r11-c6i-2xlarge-0` → `zone-c-r11`."""
    found = re.search(r"zone-[a-z]-r\d+", machine)
    assert found, machine
    return found.group()


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
    assert screen.rstrip().endswith("the run ended passed; changed since:\n  nothing")


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

"""The thread: one Pod's whole way on the real parts, judged, evidenced, and nothing left behind."""

import asyncio
import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from scaletest.run.hops import HOPS
from scaletest.toolchain import ensure
from tests.smoke.runs import FinishedRun, run, shared_machine

Query = Callable[[str], float]


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    directory = tmp_path_factory.mktemp("smoke")
    substrate = str(shared_machine(directory))
    return asyncio.run(run(directory / "results", "--profile", "smoke", "--substrate", substrate, "--duration", "1m"))


@pytest.fixture(scope="module")
def query(thread: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Query]:
    """Asks the run's own Prometheus again: the snapshot, unpacked and served by the real binary."""
    data = tmp_path_factory.mktemp("replay")
    subprocess.run(["tar", "-xzf", thread.output / "prometheus-snapshot.tar.gz", "-C", data], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    config = data / "empty.yml"
    config.write_text("{}\n")
    prometheus = asyncio.run(ensure(["prometheus"])).path("prometheus")
    flags = [f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen([prometheus, *flags, "--storage.tsdb.retention.time=10y", "--log.level=error"])
    at = thread.summary["windows"]["soakEnd"]

    def ask(expression: str) -> float:
        parameters = urllib.parse.urlencode({"query": expression, "time": at})
        with urllib.request.urlopen(f"{url}/api/v1/query?{parameters}", timeout=10) as answer:
            result = json.load(answer)["data"]["result"]
        assert len(result) == 1, f"{expression} has {len(result)} answers"
        return float(result[0]["value"][1])

    try:
        _until_ready(url)
        yield ask
    finally:
        process.terminate()
        process.wait(timeout=30)


def _until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "Prometheus did not open the snapshot"
            time.sleep(0.1)


def test_the_run_passes_and_its_exit_code_tells_so(thread: FinishedRun) -> None:
    assert thread.summary["passed"], thread.screen
    assert thread.exit_code == thread.summary["exitCode"] == 0


def test_every_gate_was_measured_and_passed(thread: FinishedRun) -> None:
    gates = {gate["key"]: gate["verdict"] for gate in thread.summary["gates"]}
    assert len(gates) == 14
    assert set(gates.values()) == {"pass"}, thread.screen
    assert thread.summary["unmeasuredSLOs"] == []


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: f"{hop.row}-{hop.actor}")
def test_the_flow_passed_every_hop(query: Query, hop: object) -> None:
    assert query(hop.query) > 0  # type: ignore[attr-defined]


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
    assert query(series) > 0


def test_every_bind_was_kube_schedulers_own(query: Query) -> None:
    scheduled = query('sum(scheduler_schedule_attempts_total{result="scheduled"})')
    bindings = query('sum(apiserver_request_total{resource="pods",subresource="binding"})')
    assert bindings == scheduled > 80


def test_the_profile_caused_what_it_gates(thread: FinishedRun) -> None:
    metrics = thread.summary["metrics"]
    assert metrics["provisions"] >= 10
    assert metrics["bootstraps"] >= 30
    assert metrics["machinesLost"] >= 10


def test_the_evidence_is_whole(thread: FinishedRun) -> None:
    names = {path.name for path in thread.output.iterdir()}
    assert {"plan.json", "rendered-values.yaml", "events.jsonl", "summary.json", "prometheus-snapshot.tar.gz"} <= names
    assert thread.summary["snapshot"]["samples"] > 10_000
    kept = b"".join(path.read_bytes() for path in thread.output.rglob("*") if path.is_file())
    assert b"PRIVATE KEY" not in kept


def test_nothing_is_left_behind(thread: FinishedRun) -> None:
    assert thread.leftovers() == []
    assert not list(thread.output.glob("*.partial"))

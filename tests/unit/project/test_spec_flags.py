"""Upstream's flags can be said; ADR-29 has those that cannot, and why."""

from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.coordinator import CoordinatorOptions
from bigfleet.operator import OperatorOptions
from bigfleet.podcontroller import PodControllerOptions
from bigfleet.process import daemon
from bigfleet.process.flags import parse_options
from bigfleet.shard import ShardOptions


def test_a_shard_and_a_coordinator_start_without_a_word_about_places() -> None:
    shard = parse_options(ShardOptions, "shard", ["--plaintext"])
    assert (shard.listen, shard.metrics_addr, shard.id, shard.data_dir) == (
        "127.0.0.1:7780",
        ":8780",
        "shard-0",
        Path("data"),
    )
    coordinator = parse_options(CoordinatorOptions, "coordinator", ["--plaintext"])
    assert (coordinator.listen, coordinator.metrics_addr, coordinator.id) == ("127.0.0.1:7790", ":8790", "node-1")


def test_the_processes_of_a_cluster_need_no_metrics_address() -> None:
    cluster = ["--cluster-id=c", "--shard-addr=s:1", "--kubeconfig=k", "--plaintext"]
    assert parse_options(OperatorOptions, "operator", cluster).metrics_addr == ":8770"
    assert parse_options(PodControllerOptions, "pod-controller", ["--kubeconfig=k"]).metrics_addr == ":8080"


def test_the_phase_log_is_asked_for_by_flag_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIGFLEET_PHASEDUMP", raising=False)
    assert not parse_options(ShardOptions, "shard", ["--plaintext"]).phase_attribution_log
    assert parse_options(ShardOptions, "shard", ["--plaintext", "--phase-attribution-log"]).phase_attribution_log
    monkeypatch.setenv("BIGFLEET_PHASEDUMP", "1")
    assert parse_options(ShardOptions, "shard", ["--plaintext"]).phase_attribution_log


async def test_metrics_at_0_are_served_nowhere() -> None:
    served = await daemon.serve_metrics("127.0.0.1:0", CollectorRegistry())
    url = f"http://127.0.0.1:{daemon.port_of(served)}/healthz"
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        assert answer.status == 200
    await served.cleanup()
    silent = await daemon.serve_metrics("0", CollectorRegistry())
    assert (silent.sites, daemon.port_of(silent)) == (set(), 0)
    await silent.cleanup()

"""`up` with another number of clusters or Pods than the profile's, what it says at its end, and Ctrl-C."""

import asyncio
import time
from pathlib import Path

import pytest
from kubernetes.client import V1ObjectMeta, V1Pod, V1PodStatus

from scaletest.cli.status_text import status_document, status_lines
from scaletest.cluster.fleet_file import render_fleet
from scaletest.model.documents.loadprofile import LoadProfile, Seeding
from scaletest.run import interrupts as module
from scaletest.run.fleet.status import FleetStatus
from scaletest.run.fleet.up import resized
from scaletest.run.interrupts import Interrupts
from tests.unit.plans import smoke_plan

VALUES = smoke_plan().values("run")


def machines(values: dict[str, object]) -> list[dict[str, object]]:
    """What the provider's pod would draw from these values."""
    load = LoadProfile.model_validate(values["loadProfile"])
    return list(render_fleet(load, Seeding.model_validate(values["seeding"]))["machines"])


def test_without_wishes_nothing_changes() -> None:
    assert resized(VALUES, None, None) == VALUES


def test_the_pods_are_shared_out_among_the_clusters() -> None:
    values = resized(VALUES, 3, 100)
    assert values["kwok"]["clusterCount"] == values["seeding"]["clusters"] == 3
    assert values["loadProfile"]["target"] == 34
    assert {entry["cluster"] for entry in machines(values) if "cluster" in entry} == {
        f"kwok-cluster-{ordinal}" for ordinal in range(3)
    }


def test_more_clusters_share_the_same_pods() -> None:
    assert resized(VALUES, 4, None)["loadProfile"]["target"] == 20


def test_without_pods_no_cluster_holds_a_machine_but_some_can_be_bought() -> None:
    drawn = machines(resized(VALUES, 3, 0))
    assert drawn
    assert {entry["state"] for entry in drawn} == {"Speculative"}
    assert not any("cluster" in entry for entry in drawn)


COMPONENTS = {"kwok-cluster": "kwok-cluster", "bigfleet-coordinator": "coordinator"}


def status_of(host_id: str, *pods: str, identity: str = "identity") -> FleetStatus:
    """A fleet with these pods, at 10.0.0.7 and further."""
    found = [
        V1Pod(
            metadata=V1ObjectMeta(
                name=name, labels={"app.kubernetes.io/component": COMPONENTS.get(name.rpartition("-")[0], "")}
            ),
            status=V1PodStatus(pod_ip=f"10.0.0.{number}"),
        )
        for number, name in enumerate(pods, 7)
    ]
    return FleetStatus(host_id, "run", "here", time.time(), None, "ns", Path("kubeconfig"), Path(identity), found)


def lines_of(host_id: str, *pods: str) -> str:
    """What a person reads about a fleet with these pods; a command over several lines as a shell reads it."""
    return "\n".join(status_lines(status_of(host_id, *pods))).replace(f" \\\n{'':<12}", " ")


def test_how_to_ask_prometheus_is_told_only_where_there_is_one() -> None:
    assert "https://10.0.0.8:9090" in lines_of("h1", "kwok-cluster-0", "prometheus-0")
    assert "port-forward prometheus-0" in lines_of("", "kwok-cluster-0", "prometheus-0")
    for host_id in ("h1", ""):
        assert "metrics" not in lines_of(host_id, "kwok-cluster-0")


def test_what_can_be_asked_of_bigfleet_and_done_to_its_machines_is_told_where_it_can_be_reached() -> None:
    told = lines_of("h1", "bigfleet-shard-0", "bigfleet-provider-0")
    assert "bigfleetctl why --cluster kwok-cluster-0 --shard-addr 10.0.0.7:7780 --tls-dir identity" in told
    assert "bigfleet faults --target 10.0.0.8:7800 --tls-dir identity --strike vanish" in told
    assert "10.0.0." not in lines_of("", "bigfleet-shard-0", "bigfleet-provider-0")


def test_bigfleetctl_is_pointed_at_every_coordinator_with_the_credentials_that_they_want() -> None:
    told = lines_of("h1", "bigfleet-coordinator-0", "bigfleet-coordinator-1")
    assert "export BIGFLEET_COORDINATOR=10.0.0.7:7790,10.0.0.8:7790 BIGFLEET_TLS_DIR=identity; " in told
    assert "bigfleetctl get shards" in told
    assert "BIGFLEET_TLS_DIR='a place';" in "\n".join(
        status_lines(status_of("h1", "bigfleet-coordinator-0", identity="a place"))
    )
    assert "BIGFLEET_COORDINATOR" not in lines_of("h1", "bigfleet-shard-0"), "it may be switched off"
    document = status_document(status_of("h1", "bigfleet-coordinator-0"))
    assert (document["coordinators"], document["tlsDir"]) == (["10.0.0.7:7790"], "identity")


def test_where_nobody_reaches_a_coordinator_from_outside_the_credentials_are_named_all_the_same() -> None:
    told = lines_of("", "bigfleet-coordinator-0")
    assert "it answers inside of the cluster only; bigfleetctl --tls-dir identity" in told
    assert "10.0.0." not in told


def test_commands_are_told_so_that_they_can_be_pasted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bigfleetctl").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "   bigfleetctl why" in lines_of("h1", "bigfleet-shard-0").replace("pending", "")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    told = lines_of("h1", "bigfleet-shard-0")
    assert f"{tmp_path}/bigfleetctl why" in told
    assert "$(scaletest-runner tools path kubectl) -n ns get pods" in told
    monkeypatch.chdir(tmp_path.parent)
    assert f" {tmp_path.name}/bigfleetctl why" in lines_of("h1", "bigfleet-shard-0")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


async def interrupted(press: list[float], clock: Clock, *, concluding: bool = False) -> tuple[int, list[str]]:
    """How often a task was cancelled by Ctrl-C at these times, and what was said."""
    said: list[str] = []
    interrupts = Interrupts(said.append, "tearing down")
    interrupts.concluding = concluding
    cancelled = 0

    async def work() -> None:
        nonlocal cancelled
        interrupts.guard()
        for moment in press:
            clock.now = 100 + moment
            interrupts()
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                interrupts.absorb()
                cancelled += 1

    await asyncio.create_task(work())
    return cancelled, said


async def test_the_first_and_the_second_ctrl_c_count_and_no_more(clock: Clock) -> None:
    assert await interrupted([0, 1, 2, 3], clock) == (
        2,
        ["interrupted: tearing down (again to force)", "forced: tearing down at once"],
    )


async def test_signals_that_come_together_are_one(clock: Clock) -> None:
    assert (await interrupted([0, 0.1, 0.2], clock))[0] == 1


async def test_while_it_ends_already_only_the_second_one_cuts_it_short(clock: Clock) -> None:
    assert (await interrupted([0], clock, concluding=True))[0] == 0
    assert (await interrupted([0, 1], clock, concluding=True))[0] == 1


async def test_a_cancellation_that_is_nobodys_ctrl_c_goes_on() -> None:
    interrupts = Interrupts(lambda _: None, "tearing down")
    interrupts.guard()
    with pytest.raises(asyncio.CancelledError):
        interrupts.absorb()

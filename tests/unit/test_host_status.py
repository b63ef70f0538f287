"""What a pod's status says about its containers."""

from datetime import UTC, datetime

import pytest

from scaletest.host.kubelet.containers import Backoff, restarts
from scaletest.host.kubelet.status import (
    Conditions,
    ContainerStatus,
    phase_of,
    pod_status,
    running,
    terminated,
    waiting,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
UP = running(NOON)
DONE = terminated(0, NOON, NOON)
BROKEN = terminated(3, NOON, NOON)


def container(state: dict[str, object], **other: object) -> ContainerStatus:
    return ContainerStatus("one", "image", state=state, **other)  # type: ignore[arg-type]


def test_a_killed_process_shows_its_signal() -> None:
    ended = terminated(-9, NOON, NOON)["terminated"]
    assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")
    assert ended["finishedAt"] == "2030-01-01T12:00:00Z"


def test_a_clean_end_is_completed_and_a_failed_start_says_why() -> None:
    assert DONE["terminated"]["reason"] == "Completed"
    failed = terminated(127, NOON, NOON, "no such file")["terminated"]
    assert (failed["reason"], failed["message"]) == ("StartError", "no such file")


@pytest.mark.parametrize(
    ("init", "main", "policy", "ending", "phase"),
    [
        ([], [waiting("ContainerCreating")], "Always", False, "Pending"),
        ([UP], [waiting("PodInitializing")], "Always", False, "Pending"),
        ([DONE], [UP], "Always", False, "Running"),
        ([], [UP, DONE], "Never", False, "Running"),
        ([], [DONE, DONE], "Never", False, "Succeeded"),
        ([], [DONE, BROKEN], "OnFailure", False, "Failed"),
        ([], [DONE], "Always", False, "Running"),
        ([], [DONE], "Always", True, "Succeeded"),
        ([], [BROKEN], "Always", True, "Failed"),
        ([BROKEN], [waiting("PodInitializing")], "Never", False, "Failed"),
        ([BROKEN], [waiting("PodInitializing")], "Always", False, "Pending"),
    ],
)
def test_the_phase_follows_from_the_containers(
    init: list[dict[str, object]], main: list[dict[str, object]], policy: str, ending: bool, phase: str
) -> None:
    assert phase_of([container(one) for one in init], [container(one) for one in main], policy, ending) == phase


def test_a_container_that_backs_off_leaves_its_pod_running() -> None:
    crashed = container(waiting("CrashLoopBackOff"), last_state=BROKEN)
    assert phase_of([], [crashed], "Always", ending=False) == "Running"


def test_a_pod_is_ready_when_all_its_containers_are() -> None:
    def ready(*containers: ContainerStatus) -> bool:
        status = pod_status(
            phase="Running",
            conditions=Conditions(),
            init=[],
            main=containers,
            address="127.64.1.1",
            host_address="127.64.0.1",
            began="2030-01-01T12:00:00Z",
        )
        conditions: dict[str, str] = {one["type"]: one["status"] for one in status["conditions"]}
        return conditions["Ready"] == "True"

    assert ready(container(UP, ready=True), container(UP, ready=True))
    assert not ready(container(UP, ready=True), container(UP))


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    conditions = Conditions()
    [first] = conditions.update({"Ready": False})
    [second] = conditions.update({"Ready": False})
    [third] = conditions.update({"Ready": True})
    assert first == second
    assert third["status"] == "True"


def test_back_off_doubles_to_its_limit_and_forgets_after_a_long_run() -> None:
    backoff = Backoff()
    assert [backoff.after(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.after(run_seconds=61) == 1


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", -9, True),
        ("Never", 1, False),
    ],
)
def test_the_restart_policy_decides(policy: str, code: int, again: bool) -> None:
    assert restarts(policy, code) is again

"""What a pod's status says about its containers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from scaletest.host.kubelet.pod.backoff import RestartBackoff, restarts
from scaletest.host.kubelet.pod.status import (
    Condition,
    Conditions,
    ContainerStatus,
    Phase,
    conditions_of,
    phase_of,
    running,
    terminated,
    waiting,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
UP = running(NOON)
DONE = terminated(0, NOON, NOON)
BROKEN = terminated(3, NOON, NOON)


def container(state: dict[str, object], **other: Any) -> ContainerStatus:
    return ContainerStatus("one", "image", state=state, **other)


def test_a_killed_process_shows_its_signal() -> None:
    ended = terminated(-9, NOON, NOON)["terminated"]
    assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")
    assert ended["finishedAt"] == "2030-01-01T12:00:00Z"


def test_a_clean_end_is_completed_and_a_failed_start_says_why() -> None:
    assert DONE["terminated"]["reason"] == "Completed"
    failed = terminated(128, NOON, NOON, "no such file", "StartError")["terminated"]
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


def test_a_pod_is_over_when_its_sidecars_have_ended_too() -> None:
    sidecar = container(UP, sidecar=True)
    assert phase_of([sidecar], [container(DONE)], "Never", ending=False) == "Running"
    sidecar.state = terminated(-15, NOON, NOON)
    assert phase_of([sidecar], [container(DONE)], "Never", ending=False) == "Succeeded"


def test_a_container_that_backs_off_leaves_its_pod_running() -> None:
    crashed = container(waiting("CrashLoopBackOff"), last_state=BROKEN)
    assert phase_of([], [crashed], "Always", ending=False) == "Running"


def test_a_pod_is_ready_when_all_its_containers_are() -> None:
    up, down = container(UP, ready=True), container(UP)
    assert conditions_of("Running", [], [up, up], {}, ending=False)["Ready"].holds
    unready = conditions_of("Running", [], [up, down], {}, ending=False)["Ready"]
    assert unready == Condition(False, "ContainersNotReady", "containers with unready status: [one]")


def test_a_sidecar_counts_for_readiness_and_lets_others_start_once_it_has_started() -> None:
    sidecar = container(UP, sidecar=True)
    waiting_for = conditions_of("Pending", [sidecar], [container(waiting("PodInitializing"))], {}, ending=False)
    assert waiting_for["Initialized"].reason == "ContainersNotInitialized"
    sidecar.started = True
    conditions = conditions_of("Running", [sidecar], [container(UP, ready=True)], {}, ending=False)
    assert conditions["Initialized"].holds
    assert not conditions["Ready"].holds
    sidecar.ready = True
    assert conditions_of("Running", [sidecar], [container(UP, ready=True)], {}, ending=False)["Ready"].holds


def test_a_closed_readiness_gate_keeps_a_pod_from_being_ready() -> None:
    conditions = conditions_of("Running", [], [container(UP, ready=True)], {"open": True, "shut": False}, ending=False)
    assert conditions["ContainersReady"].holds
    assert conditions["Ready"].reason == "ReadinessGatesNotReady"


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")])
def test_a_pod_that_is_over_is_not_ready_and_says_why(phase: Phase, reason: str) -> None:
    conditions = conditions_of(phase, [], [container(DONE)], {}, ending=False)
    assert (conditions["Ready"].holds, conditions["Ready"].reason) == (False, reason)
    assert not conditions["PodReadyToStartContainers"].holds


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    conditions = Conditions()
    [first] = conditions.update({"Ready": Condition(False, "A", "why")})
    [second] = conditions.update({"Ready": Condition(False, "B")})
    [third] = conditions.update({"Ready": Condition(True)})
    assert first["lastTransitionTime"] == second["lastTransitionTime"]
    assert (second["reason"], second["message"]) == ("B", None)
    assert third["status"] == "True"


def test_back_off_doubles_to_its_limit_and_forgets_after_a_long_run() -> None:
    backoff = RestartBackoff()
    assert [backoff.after(0) for _ in range(12)] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert backoff.after(run_seconds=599) == 300
    assert [backoff.after(run_seconds=601), backoff.after(0)] == [0, 1]


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

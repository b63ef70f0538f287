"""What an install shows while it waits, and when it stops waiting."""

from typing import Any

from kubernetes.client import (
    V1ContainerState,
    V1ContainerStateRunning,
    V1ContainerStateWaiting,
    V1ContainerStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodCondition,
    V1PodStatus,
)

from scaletest.run.install import hopeless_container, progress_line


def pod(name: str, *, ready: bool = False, restarts: int = 0, waiting: str = "") -> Any:
    state = V1ContainerState(waiting=V1ContainerStateWaiting(reason=waiting)) if waiting else None
    container = V1ContainerStatus(
        name="main",
        image="any",
        image_id="",
        ready=ready,
        restart_count=restarts,
        state=state or V1ContainerState(running=V1ContainerStateRunning()),
    )
    condition = V1PodCondition(type="Ready", status="True" if ready else "False")
    return V1Pod(
        metadata=V1ObjectMeta(name=name),
        status=V1PodStatus(phase="Running", conditions=[condition], container_statuses=[container]),
    )


def test_the_line_counts_ready_pods_and_names_the_others() -> None:
    line = progress_line([pod("a", ready=True), pod("b", waiting="PodInitializing"), pod("c")])
    assert line == "pods ready 1/3, waiting for b, c"


def test_the_line_stays_short() -> None:
    assert progress_line([pod(f"p{i}") for i in range(9)]) == "pods ready 0/9, waiting for p0, p1, p2 and 6 more"


def test_trouble_is_named() -> None:
    line = progress_line([pod("a"), pod("b", waiting="CrashLoopBackOff")])
    assert line == "pods ready 0/2, waiting for a, b; b: main: CrashLoopBackOff"


def test_a_container_that_ends_again_and_again_is_hopeless() -> None:
    assert hopeless_container([pod("a", ready=True), pod("b", restarts=4)]) == "b/main"


def test_one_that_came_up_after_restarts_is_not() -> None:
    assert hopeless_container([pod("a", ready=True, restarts=9), pod("b", restarts=3)]) == ""

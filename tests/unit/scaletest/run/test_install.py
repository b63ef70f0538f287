"""What keeps an install from beginning, what it shows while it waits, and when it stops waiting."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
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

from scaletest.errors import KubeApiConflict, UsageError
from scaletest.run.steps.install import hopeless_container, prepare_namespace, progress_line
from scaletest.run.target.kube_api import Holder, KubeApi, RunObjects
from scaletest.run.target.occupancy import refuse_occupied


@dataclass
class Cluster(KubeApi):
    """Somebody's cluster, as far as one looks before an install."""

    held_by: Holder | None = None
    found: dict[str, RunObjects] = field(default_factory=dict)
    namespace: str = "mine"

    async def holder(self) -> Holder | None:
        return self.held_by

    async def runs(self, run_id: str = "") -> dict[str, RunObjects]:
        return self.found

    async def create_namespace(self) -> None:
        raise KubeApiConflict("the Kubernetes API answered 409: Conflict")


async def refusal(cluster: Cluster) -> UsageError:
    with pytest.raises(UsageError) as refused:
        await refuse_occupied(cluster, "gc --context c")
    return refused.value


async def test_an_occupied_namespace_is_a_wrong_use_that_names_who_has_it() -> None:
    refused = await refusal(Cluster(Holder("run-1", leaving=False)))
    assert (refused.exit_code, refused.message) == (2, "namespace mine is occupied by run run-1")
    assert refused.hint.startswith("run `gc --context c --run run-1` unless")
    assert "--namespace NAME" in refused.hint


async def test_so_is_one_that_belongs_to_nobody_or_is_on_its_way_out_or_what_a_former_run_left() -> None:
    assert "belongs to no run" in (await refusal(Cluster(Holder("", leaving=False)))).message
    assert "is still being removed" in (await refusal(Cluster(Holder("run-1", leaving=True)))).message
    left = Cluster(found={"run-1": RunObjects(objects=[("clusterrole", "old")])})
    assert "clusterrole/old (run run-1)" in (await refusal(left)).message


async def test_a_namespace_that_is_free_and_runs_in_others_are_no_obstacle() -> None:
    await refuse_occupied(Cluster(found={"run-1": RunObjects(["other"])}), "gc")


async def test_whoever_takes_the_namespace_between_our_look_and_our_step_is_told_of_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another run took namespace mine a moment ago"):
        await prepare_namespace(Cluster(), "run-2", tmp_path)


async def test_a_namespace_of_the_clusters_own_is_not_taken_for_one_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="namespace mine exists, and belongs to no run"):
        await prepare_namespace(Cluster(Holder("", leaving=False)), "run-2", tmp_path)


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

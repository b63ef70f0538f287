"""Carries out ReclaimInstructions: acknowledge, cordon, evict until the nodes are empty, report."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import structlog

from bigfleet.api.v1alpha1.shard_pb2 import DrainReport, OperatorMessage, ReclaimAck, ReclaimInstruction
from bigfleet.kube import KubeClient, KubeError, NotFound, TooManyRequests
from bigfleet.kube.resources import NODES, PODS
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.operator.nodestates import NodeStates
from bigfleet.operator.outbox import ShardOutbox

# What a PodDisruptionBudget refused is asked for again this often.
_ROUND_SECONDS = 2.0
# The first look after an eviction comes sooner: most Pods leave at once.
_FIRST_ROUND_SECONDS = 0.5
# The last look comes this long before the grace is over, so that the report does too.
_LAST_LOOK_SECONDS = 0.25
_DEFAULT_GRACE_SECONDS = 30
# Requests of all drains together; more was measured to be slower (docs/reference/engine.md#drains).
_CONCURRENCY = 32
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

log = structlog.get_logger(__name__)


def must_leave(pod: dict[str, Any]) -> bool:
    """Whether a drain waits for this Pod: not for DaemonSets' and static Pods, which stay with their node."""
    metadata = pod["metadata"]
    if _MIRROR_ANNOTATION in (metadata.get("annotations") or {}):
        return False
    owners = metadata.get("ownerReferences") or []
    if any(owner.get("controller") and owner["kind"] == "DaemonSet" for owner in owners):
        return False
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


class Drains:
    """Running drains, one task per instruction. An instruction that is repeated is only acknowledged again."""

    def __init__(self, kube: KubeClient, outbox: ShardOutbox, metrics: OperatorMetrics) -> None:
        self._kube = kube
        self._outbox = outbox
        self._metrics = metrics
        self._slots = asyncio.Semaphore(_CONCURRENCY)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._nodes: dict[str, set[str]] = {}

    def start(self, instruction: ReclaimInstruction, states: NodeStates) -> None:
        key = instruction.instruction_id
        if key in self._running:
            self._acknowledge(instruction)
            return
        self._run(key, self._carry_out(instruction, states))

    async def release(self, node: str) -> None:
        """The node's machine stays after all: stop evicting and let Pods come again. Raises while that fails."""
        for key, nodes in list(self._nodes.items()):
            if node in nodes:
                self._running[key].cancel()
        await self._set_unschedulable(node, None)

    async def close(self) -> None:
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _run(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        def done(task: asyncio.Task[None]) -> None:
            self._nodes.pop(key, None)
            if self._running.get(key) is task:
                del self._running[key]
            if not task.cancelled() and (error := task.exception()):
                log.error("drain failed", instruction=key, exc_info=error)

        task = asyncio.create_task(work)
        self._running[key] = task
        task.add_done_callback(done)

    def _acknowledge(self, instruction: ReclaimInstruction) -> None:
        ack = ReclaimAck(instruction_id=instruction.instruction_id, nodes_started=len(instruction.nodes))
        self._outbox.put(OperatorMessage(reclaim_ack=ack))

    async def _carry_out(self, instruction: ReclaimInstruction, states: NodeStates) -> None:
        grace = instruction.grace_period_seconds
        deadline = asyncio.get_running_loop().time() + (grace if grace > 0 else _DEFAULT_GRACE_SECONDS)
        targets = [states.find(name) for name in instruction.nodes]
        self._nodes[instruction.instruction_id] = {node for _, node in targets}
        log.info("drain", nodes=[node for _, node in targets], preemptor_priority=instruction.preemptor_priority)
        self._metrics.drains.inc(sum(machine is not None for machine, _ in targets))
        self._metrics.drain_grace.observe(grace)
        self._acknowledge(instruction)
        with self._metrics.dispatch_inflight.track_inprogress():
            for machine, _ in targets:
                if machine:
                    states.mark(machine, "Draining")
            problems = await asyncio.gather(*(self._drain(node, deadline) for _, node in targets))
            for (machine, _), problem in zip(targets, problems, strict=True):
                if machine:
                    states.mark(machine, "Draining" if problem else "Drained", problem)
        report = DrainReport(instruction_id=instruction.instruction_id, error="; ".join(filter(None, problems)))
        self._outbox.put(OperatorMessage(drain_report=report))

    async def _drain(self, node: str, deadline: float) -> str:
        """Keep new Pods away, then empty the node; returns why that did not come about in time.

        Whatever a request waits for, it does not outlast the deadline.
        """
        return await self._cordon(node, deadline) or await self._empty(node, deadline)

    async def _cordon(self, node: str, deadline: float) -> str:
        """Try until it holds; returns why it did not in time."""
        problem = f"{node} could not be cordoned"
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while True:
                    try:
                        await self._set_unschedulable(node, True)
                        return ""
                    except KubeError as error:
                        problem = f"{node} could not be cordoned: {error}"
                        log.warning("could not cordon, will try again", node=node, error=str(error))
                    await asyncio.sleep(_ROUND_SECONDS)
        return f"the grace is over and {problem}"

    async def _set_unschedulable(self, node: str, value: bool | None) -> None:
        async with self._slots:
            with suppress(NotFound):  # nothing can be scheduled there
                await self._kube.patch(NODES, node, {"spec": {"unschedulable": value}})

    async def _empty(self, node: str, deadline: float) -> str:
        """Evict until no Pod is left that must leave; returns why that did not come about in time."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_ROUND_SECONDS
        problem = f"the pods of {node} could not be listed"
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while True:
                    try:
                        left = await self._evict_all(node)
                    except KubeError as error:
                        problem = f"the pods of {node} could not be listed: {error}"
                    else:
                        if not left:
                            return ""
                        problem = f"{left} pods are still on {node}"
                    until_last_look = deadline - _LAST_LOOK_SECONDS - loop.time()
                    if until_last_look <= 0:
                        break
                    await asyncio.sleep(min(pause, until_last_look))
                    pause = _ROUND_SECONDS
        return f"the grace is over and {problem}"

    async def _evict_all(self, node: str) -> int:
        """One round over a node's Pods; returns how many of them it still waits for."""
        async with self._slots:
            pods, _ = await self._kube.list(PODS, fields=f"spec.nodeName={node}", from_cache=True)
        waiting = [pod for pod in pods if must_leave(pod)]
        async with asyncio.TaskGroup() as group:
            for pod in waiting:
                if "deletionTimestamp" not in pod["metadata"]:
                    group.create_task(self._evict(pod))
        return len(waiting)

    async def _evict(self, pod: dict[str, Any]) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        try:
            async with self._slots:
                await self._kube.evict(name, namespace)
        except (NotFound, TooManyRequests):
            pass  # gone already, or held by its budget until a later round
        except KubeError as error:
            log.warning("could not evict", pod=f"{namespace}/{name}", error=str(error))

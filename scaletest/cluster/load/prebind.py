"""The first fill, bound by the load-driver itself: seeded machines get the Pods they were seeded for (BF-0035).

kube-scheduler rests meanwhile (control_plane.py). A Pod that it bound all the same is left where it is.
"""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec
import structlog

from bigfleet.core.machines import Machine, MachineState
from bigfleet.scheduling.pods import Controller, PodClass
from bigfleet.scheduling.scheduler import Scheduler, hard_spread
from scaletest.cluster.witness.seen import SeenNode, SeenPod
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from scaletest.model.labels import INSTANCE_TYPE_KEY, ZONE_KEY

_POLL_SECONDS = 1.0
_IN_FLIGHT = 64
# Without a new minimum of unbound Pods for so long, the rest is left to kube-scheduler; sooner when it is only a tenth.
_PLATEAU_SECONDS = 60.0
_LAST_TENTH_SECONDS = 15.0
_LONGEST_SECONDS = 45 * 60.0
# So long after the last new node, all that were seeded are taken to be there.
_NODES_COMPLETE_SECONDS = 3.0

Binding = tuple[str, str]


class SeenNodes(Protocol):
    """The nodes as they are now; an Informer is one."""

    def __iter__(self) -> Iterator[SeenNode]: ...

    def get(self, key: str) -> SeenNode | None: ...


# Binds (Pod, node); whether it was this call that bound it.
Bind = Callable[[str, str], Awaitable[bool]]

log = structlog.get_logger(__name__)


def in_play(pods: Iterable[SeenPod], workloads: Container[str], alive: Container[str]) -> list[SeenPod]:
    """All that have a node, and those of the workloads that are alive, which are to get one.

    A Pod that is leaving is neither: its room is free in a moment, and its replacement has no node yet.
    """
    return [pod for pod in pods if not pod.leaving and pod.workload in (workloads if pod.node else alive)]


def plan_bindings(
    workloads: Mapping[str, PodClass],
    pods: Iterable[SeenPod],
    nodes: Iterable[SeenNode],
    label: str = ARCHETYPE_LABEL,
    *,
    complete: bool = True,
) -> list[Binding]:
    """(Pod, node) for every waiting Pod that has a place now: gangs whole and in one domain, hard spreads even.

    `pods` are those of `workloads`. All that are bound must be among them: their room is taken. Until the nodes are
    `complete`, Pods wait whose kind has a gang or a hard spread: by a rule over domains that are not all there yet,
    the first domain would take what belongs to the others.
    """
    machines = [_machine(node) for node in nodes if node.ready]
    scheduler = Scheduler(sorted({name for machine in machines for name in machine.allocatable}))
    for machine in sorted(machines, key=lambda one: one.id):
        scheduler.nodes.add(machine)
    waiting: dict[str, list[str]] = defaultdict(list)
    placed: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if not pod.node:
            waiting[pod.workload].append(pod.name)
        elif pod.node in scheduler.nodes.rows:
            placed[pod.workload][pod.node] += 1
    controllers = list(_controllers(scheduler, workloads, waiting, placed))
    bindings: list[Binding] = []
    ruled = {one.kind for one in controllers if one.pod.profile.same or hard_spread(one.pod.profile)}
    ready = [one for one in controllers if one.pending and (complete or one.kind not in ruled)]
    for controller, node in scheduler.fill(ready, label, whole_gangs=True):
        controller.placed[node] += 1
        controller.pending -= 1
        bindings.append((waiting[controller.name].pop(), node))
    return bindings


def _controllers(
    scheduler: Scheduler,
    workloads: Mapping[str, PodClass],
    waiting: Mapping[str, Collection[str]],
    placed: Mapping[str, Counter[str]],
) -> Iterator[Controller]:
    for name, pod in workloads.items():
        if not pod.resources.keys() <= set(scheduler.nodes.dimensions):
            continue  # no node that offers such a resource is there yet
        controller = Controller(name, pod, len(waiting.get(name, ())), scheduler.nodes.vector(pod.resources))
        for node, count in placed.get(name, {}).items():
            controller.placed[node] += count
            scheduler.occupy(controller, node, count)
        yield controller


def plan_anchors(
    workloads: Mapping[str, PodClass], pods: Collection[SeenPod], nodes: Iterable[SeenNode]
) -> list[Binding]:
    """One Pod for each gang of which none is bound, where the whole gang would find room (BF-0025).

    `workloads` and `pods` are all that there are: what is no gang, or has begun, takes room.
    """
    bound = [pod for pod in pods if pod.node]
    begun = {pod.workload for pod in bound}
    waiting = [
        pod for pod in pods if not pod.node and pod.workload not in begun and workloads[pod.workload].profile.same
    ]
    if not waiting:
        return []
    workload_of = {pod.name: pod.workload for pod in waiting}
    firsts: dict[str, Binding] = {}
    for pod, node in plan_bindings(workloads, [*bound, *waiting], nodes, label=""):
        firsts.setdefault(workload_of[pod], (pod, node))
    return list(firsts.values())


def _machine(node: SeenNode) -> Machine:
    labels = node.labels
    return Machine(
        node.name,
        MachineState.CONFIGURED,
        instance_type=labels.get(INSTANCE_TYPE_KEY, ""),
        zone=labels.get(ZONE_KEY, ""),
        allocatable=node.allocatable,
        labels=labels,
    )


async def pre_bind(
    workloads: Mapping[str, PodClass],
    replicas: Mapping[str, int],
    pods: Callable[[], Iterable[SeenPod]],
    nodes: SeenNodes,
    bind: Bind,
) -> None:
    """Bind until every replica of the workloads that `replicas` names has a node, or no more get one for a while.

    The bound Pods of all other `workloads` take room. What has to heed racks or zones comes last, when all nodes are
    there: a gang that chose among a few would take the rack that was seeded for another, and a spread over one zone
    would fill it, and in the end the free nodes would be in the wrong places.
    """
    wanted = sum(replicas.values())
    loop = asyncio.get_running_loop()
    began = last_progress = loop.time()
    least = math.inf
    ready, last_node = 0, began
    # Where Pods are that the watch still shows as waiting: their room is taken.
    bound: dict[str, str] = {}

    def seen() -> list[SeenPod]:
        now = (pod if pod.node else msgspec.structs.replace(pod, node=bound.get(pod.uid, "")) for pod in pods())
        return [pod for pod in now if pod.node or pod.workload in replicas]

    def left() -> int:
        """A Pod that does not exist yet is one that has no node."""
        return wanted - sum(bool(pod.node) and pod.workload in replicas for pod in current)

    current = seen()
    while (unbound := left()) > 0 and loop.time() - began < _LONGEST_SECONDS:
        if unbound < least:
            least, last_progress = unbound, loop.time()
        patience = _LAST_TENTH_SECONDS if unbound < wanted / 10 else _PLATEAU_SECONDS
        if loop.time() - last_progress > patience:
            break
        before, ready = ready, sum(node.ready for node in nodes)
        if ready > before:
            last_node = loop.time()
        complete = loop.time() - last_node >= _NODES_COMPLETE_SECONDS
        uids = {pod.name: pod.uid for pod in current}
        for pod, node in await bind_all(plan_bindings(workloads, current, nodes, complete=complete), nodes, bind):
            bound[uids[pod]] = node
        await asyncio.sleep(_POLL_SECONDS)
        current = seen()
    log.info("first fill is bound", bound=len(bound), left=unbound, seconds=round(loop.time() - began, 1))


async def bind_all(bindings: Iterable[Binding], nodes: SeenNodes, bind: Bind) -> list[Binding]:
    """Those that came true by this call.

    A plan takes a while to carry out. A node that is cordoned or gone by then must not be used: the apiserver would
    bind a Pod even to a node that does not exist, and only the garbage collector would find it there.
    """
    turns = asyncio.Semaphore(_IN_FLIGHT)

    async def one(pod: str, node: str) -> Binding | None:
        async with turns:
            known = nodes.get(node)
            return (pod, node) if known and known.ready and await bind(pod, node) else None

    return [done for done in await asyncio.gather(*(one(*binding) for binding in bindings)) if done]

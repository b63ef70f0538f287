"""One cluster in virtual time: controllers and their Pods, a scheduler, an operator.

See docs/reference/harness.md#closed-loop.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from bigfleet.core.machines import Machine
from bigfleet.core.needs import Need
from bigfleet.core.vectors import add, largest, scaled
from bigfleet.scheduling.placement import Ints
from bigfleet.scheduling.pods import Controller, PodClass
from bigfleet.scheduling.scheduler import Scheduler
from bigfleet.sim.world.timeline import Rank, Timeline

# How often a draw may meet a Pod that is not alive before it is given up.
_DRAWS = 100


@dataclass(frozen=True)
class ClusterModel:
    """How clusters of the simulation work. The two switches pin historic bugs; leave them on otherwise."""

    # Off: an evicted Pod never comes back.
    controller_managed: bool = True
    # Off: only pending Pods have a CapacityRequest, so a bound Pod's machine looks unused (before BF-0039).
    request_per_pod: bool = True
    # Seconds from the end of a Pod to its replacement's request.
    recreate_seconds: float = 0.0
    # Seconds until the Pods of a lost node are given up, and between two of them; without a pause all end at once.
    lost_pod_seconds: float = 0.0
    lost_pod_pause_seconds: float = 0.0


class Cluster:
    """Demand and nodes of one cluster."""

    def __init__(self, name: str, timeline: Timeline, dimensions: Sequence[str], model: ClusterModel) -> None:
        self.name = name
        self.controllers: dict[str, Controller] = {}
        self.scheduler = Scheduler(dimensions)
        self.nodes = self.scheduler.nodes
        # Pods that lost their place: by reclaim or preemption, and with a broken machine.
        self.evicted = 0
        self.killed = 0
        # A partitioned cluster's roll-ups do not arrive.
        self.partitioned = False
        self._timeline = timeline
        self._model = model
        self._hosts: dict[str, set[Controller]] = {}
        # Nodes whose Pods are given up, with what they host.
        self._lost: deque[tuple[str, set[Controller]]] = deque()
        self._waiting: dict[Controller, None] = {}
        self._rollup: list[Need] | None = None
        # By prefix: controllers, and their replicas added up, to draw a Pod from.
        self._lots: dict[str, tuple[list[Controller], Ints]] = {}

    @property
    def connected(self) -> bool:
        """Whether its operator has a session with the shard."""
        return not self.partitioned

    # --- demand -------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> int:
        return sum(controller.alive for controller in self.controllers.values())

    @property
    def bound(self) -> int:
        return sum(controller.bound for controller in self.controllers.values())

    @property
    def pending(self) -> int:
        return sum(controller.pending for controller in self._waiting)

    def create(self, name: str, pod: PodClass, replicas: int) -> None:
        """A new controller and its Pods; they wait until `bind`."""
        if name in self.controllers:
            raise ValueError(f"cluster {self.name} has two workloads called {name!r}")
        controller = Controller(name, pod, replicas, self.nodes.vector(pod.resources))
        self.controllers[name] = controller
        self._waiting[controller] = None
        self._changed(anew=True)

    def scale(self, name: str, replicas: int) -> None:
        """Another number of replicas: pending Pods leave first, then those on the fewest-Pod nodes."""
        controller = self.controllers[name]
        controller.replicas = replicas
        more = replicas - controller.alive - controller.missing
        if more > 0:
            controller.pending += more
            self._waiting[controller] = None
        for _ in range(min(-more, controller.alive)):
            self._end_pod(controller, recreate=False)
        self._changed(anew=True)

    def delete(self, name: str) -> None:
        """The workload ends with all its Pods."""
        controller = self.controllers[name]
        controller.replicas = 0
        for _ in range(controller.alive):
            self._end_pod(controller, recreate=False)
        self._waiting.pop(controller, None)
        del self.controllers[name]
        self._changed(anew=True)

    def delete_pod(self, random: Random, prefix: str = "") -> None:
        """One Pod, any of those alive (of workloads with this prefix), ends; its controller replaces it."""
        controller = self._draw(random, prefix)
        if controller:
            self._end_pod(controller, recreate=True, random=random)
            self._changed()

    def rollup(self) -> list[Need]:
        """The whole demand, one need for each profile and gang (docs/reference/engine.md#from-pod-to-need)."""
        if self._rollup is None:
            rows: dict[tuple[str, str], Need] = {}
            for controller in self.controllers.values():
                count = controller.alive if self._model.request_per_pod else controller.pending
                if count:
                    _add_up(rows, self.name, controller.pod, count)
            self._rollup = [rows[key] for key in sorted(rows)]
        return self._rollup

    def places(self, prefix: str = "") -> int:
        """Replicas asked for, of workloads with this prefix."""
        _, reach = self._lot(prefix)
        return int(reach[-1]) if len(reach) else 0

    def _lot(self, prefix: str) -> tuple[list[Controller], Ints]:
        if prefix not in self._lots:
            order = [one for one in self.controllers.values() if one.name.startswith(prefix)]
            self._lots[prefix] = order, np.cumsum([one.replicas for one in order], dtype=np.int64)
        return self._lots[prefix]

    def _draw(self, random: Random, prefix: str) -> Controller | None:
        order, reach = self._lot(prefix)
        total = self.places(prefix)
        # Among the places of all Pods, until one is met whose Pod is alive.
        for _ in range(_DRAWS if total else 0):
            place = random.randrange(total)
            index = int(np.searchsorted(reach, place, side="right"))
            if place - (int(reach[index]) - order[index].replicas) < order[index].alive:
                return order[index]
        return None

    def _changed(self, anew: bool = False) -> None:
        self._rollup = None
        if anew:
            self._lots = {}

    # --- nodes (what the shard tells the operator) --------------------------------------------------------------

    def node_ready(self, machine: Machine) -> None:
        if machine.id in self._hosts:
            # Back before its Pods were given up: it is a new node all the same.
            self.killed += self._clear(machine.id)
        self.nodes.add(machine)
        self._hosts[machine.id] = set()

    def node_drained(self, machine_id: str) -> None:
        """Its Pods are evicted before it leaves."""
        if machine_id in self._hosts:
            self.evicted += self._clear(machine_id)

    def node_lost(self, machine_id: str) -> None:
        """Its Pods are gone; the cluster finds out after a while."""
        hosted = self._hosts.get(machine_id)
        if hosted is None:
            return
        self.nodes.close(machine_id)
        if self._model.lost_pod_seconds > 0:
            self._timeline.after(self._model.lost_pod_seconds, Rank.WORKLOAD, lambda: self._give_up(machine_id, hosted))
        else:
            self._give_up(machine_id, hosted)

    def _give_up(self, machine_id: str, hosted: set[Controller]) -> None:
        self._lost.append((machine_id, hosted))
        if self._model.lost_pod_pause_seconds <= 0 or len(self._lost) == 1:
            self._end_lost()

    def _end_lost(self) -> None:
        """The Pods of lost nodes, one after the other if there is a pause between them."""
        pause = self._model.lost_pod_pause_seconds
        while self._lost:
            machine_id, hosted = self._lost[0]
            if self._hosts.get(machine_id) is not hosted:
                self._lost.popleft()  # it is a new node by now
            elif pause > 0 and hosted:
                first = min(hosted, key=lambda one: one.name)
                self._end_pod(first, recreate=self._model.controller_managed, node=machine_id)
                self.killed += 1
                self._changed()
                self._timeline.after(pause, Rank.WORKLOAD, self._end_lost)
                break
            else:
                self.killed += self._clear(machine_id)
                self._lost.popleft()
        self.bind()

    def _clear(self, machine_id: str) -> int:
        ended = 0
        for controller in sorted(self._hosts[machine_id], key=lambda one: one.name):
            count = controller.placed[machine_id]
            for _ in range(count):
                self._end_pod(controller, recreate=self._model.controller_managed, node=machine_id)
            ended += count
        del self._hosts[machine_id]
        self.nodes.remove(machine_id)
        self._changed()
        return ended

    # --- Pods ---------------------------------------------------------------------------------------------------

    def _end_pod(self, controller: Controller, recreate: bool, node: str = "", random: Random | None = None) -> None:
        if (
            not node
            and controller.pending
            and (random is None or random.randrange(controller.alive) >= controller.bound)
        ):
            controller.pending -= 1
        else:
            node = node or _pick(controller.placed, random)
            self._leave(controller, node)
        if not controller.pending:
            self._waiting.pop(controller, None)
        if recreate:
            controller.missing += 1
            if self._model.recreate_seconds > 0:
                self._timeline.after(
                    self._model.recreate_seconds, Rank.WORKLOAD, lambda: self._recreate(controller, bind=True)
                )
            else:
                self._recreate(controller, bind=random is not None)

    def _recreate(self, controller: Controller, bind: bool) -> None:
        controller.missing -= 1
        if controller.alive + controller.missing >= controller.replicas:
            return  # scaled down meanwhile
        controller.pending += 1
        self._waiting[controller] = None
        self._changed()
        if bind:
            self.bind(only=controller)

    def _leave(self, controller: Controller, node: str) -> None:
        controller.placed[node] -= 1
        controller.bound -= 1
        self.scheduler.leave(controller, node)
        if not controller.placed[node]:
            del controller.placed[node]
            self._hosts[node].discard(controller)

    def bind(self, only: Controller | None = None) -> None:
        """Let the scheduler place what waits (or one controller's Pods)."""
        self._settle(self.scheduler.schedule([only] if only else list(self._waiting)))

    def fill(self, label: str = "") -> None:
        """Place the first Pods as a load-driver does that binds them itself: see Scheduler.fill."""
        if label:
            self._settle(self.scheduler.fill(list(self._waiting), label))
        self._settle(self.scheduler.fill(list(self._waiting), ""))

    def _settle(self, places: Iterator[tuple[Controller, str]]) -> None:
        for controller, node in places:
            controller.placed[node] += 1
            controller.bound += 1
            controller.pending -= 1
            self._hosts[node].add(controller)
            if not controller.pending:
                self._waiting.pop(controller, None)
            if not self._model.request_per_pod:
                self._changed()


def _pick(placed: Counter[str], random: Random | None) -> str:
    """The node of a Pod that goes: any Pod by chance, else one of the node with the fewest."""
    if random is None:
        return min(placed, key=lambda node: (placed[node], node))
    nodes = list(placed)
    return random.choices(nodes, [placed[node] for node in nodes])[0] if len(nodes) > 1 else nodes[0]


def _add_up(rows: dict[tuple[str, str], Need], cluster: str, pod: PodClass, count: int) -> None:
    key = pod.profile.fingerprint, pod.group
    asked, known = scaled(pod.resources, count), rows.get(key)
    if known is None:
        rows[key] = Need(cluster, pod.profile, asked, pod.resources, pod.group)
    else:
        rows[key] = Need(
            cluster, pod.profile, add(known.aggregate, asked), largest(known.min_unit, pod.resources), pod.group
        )

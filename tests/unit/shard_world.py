"""A shard without sockets: real inventory, holds, executor and reconciler, over a provider that does as it is told."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import MachineState
from bigfleet.core.requirements import NeedProfile, Requirement
from bigfleet.engine import Action, ActionKind
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.inventory.origins import DEFAULT_PROVIDER
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notice, Notices
from bigfleet.shard.process import observer
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.provider.backoff import Backoff
from bigfleet.shard.provider.client import Provider, ProviderError
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.execute import Executor
from bigfleet.shard.provider.listed import Listed
from bigfleet.shard.provider.quotas import Quotas
from bigfleet.shard.provider.reconcile import Reconciler
from bigfleet.shard.provider.several import Reconcilers
from bigfleet.shard.sessions.needs import NeedsTable
from bigfleet.shard.sessions.questions import NoSession

PROFILE = NeedProfile.canonical([], [], 1000, 3, 0)
_AFTER = {
    "create": MachineState.CREATING,
    "configure": MachineState.CONFIGURING,
    "drain": MachineState.DRAINING,
    "delete": MachineState.DELETING,
}
_UNBOUND = (MachineState.SPECULATIVE, MachineState.CREATING, MachineState.IDLE, MachineState.DELETING)


def wire_machine(machine_id: str, state: MachineState, cluster: str = "") -> provider_pb2.Machine:
    hostless = state in (MachineState.SPECULATIVE, MachineState.CREATING)
    return provider_pb2.Machine(
        id=machine_id,
        state=provider_pb2.MachineState.Name(state),
        host=None if hostless else provider_pb2.HostRef(provider="p", ref=f"host-{machine_id}"),
        cluster=cluster,
        last_error="lost" if state is MachineState.FAILED else "",
    )


@dataclass
class Clock:
    """Time that stands still until a test moves it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class ScriptedProvider:
    """Accepts every call at once, unless told to refuse or to wait. A revision is the number of changes so far."""

    def __init__(self) -> None:
        self.machines: dict[str, provider_pb2.Machine] = {}
        self.calls: list[tuple[str, str]] = []
        self.graces: list[int] = []
        self.refusals: dict[str, grpc.StatusCode] = {}
        # Answers wait here: what was asked has taken effect, or was looked up, before.
        self.call_gate = asyncio.Event()
        self.list_gate = asyncio.Event()
        self.call_gate.set()
        self.list_gate.set()
        self.changes: list[str] = []

    def put(self, machine_id: str, state: MachineState, cluster: str = "") -> None:
        known = self.machines.get(machine_id)
        machine = self.machines[machine_id] = wire_machine(machine_id, state, cluster)
        if known:
            machine.zone = known.zone
            machine.labels.update(known.labels)
        self.changes.append(machine_id)

    def remove(self, machine_id: str) -> None:
        del self.machines[machine_id]
        self.changes.append(machine_id)

    async def create(self, machine_id: str) -> provider_pb2.Machine | None:
        return await self._mutate("create", machine_id)

    async def configure(
        self, machine_id: str, cluster: str, blob: bytes, metadata: dict[str, str]
    ) -> provider_pb2.Machine | None:
        return await self._mutate("configure", machine_id, cluster)

    async def drain(self, machine_id: str, grace_seconds: int) -> provider_pb2.Machine | None:
        self.graces.append(grace_seconds)
        return await self._mutate("drain", machine_id)

    async def delete(self, machine_id: str) -> provider_pb2.Machine | None:
        return await self._mutate("delete", machine_id)

    async def get(self, machine_id: str) -> provider_pb2.Machine:
        self.calls.append(("get", machine_id))
        if machine_id not in self.machines:
            raise ProviderError("Get", grpc.StatusCode.NOT_FOUND, machine_id)
        return self.machines[machine_id]

    async def list(self, since_revision: bytes) -> provider_pb2.MachineList:
        if "list" in self.refusals:
            raise ProviderError("List", self.refusals["list"], "down")
        changed = self.changes[int(since_revision) :] if since_revision else list(self.machines)
        answer = provider_pb2.MachineList(
            machines=[self.machines[each] for each in dict.fromkeys(changed) if each in self.machines],
            removed_ids=[each for each in dict.fromkeys(changed) if each not in self.machines],
            revision=b"%d" % len(self.changes),
        )
        await self.list_gate.wait()
        return answer

    async def _mutate(self, call: str, machine_id: str, cluster: str = "") -> provider_pb2.Machine:
        self.calls.append((call, machine_id))
        if call in self.refusals:
            raise ProviderError(call, self.refusals[call], "refused")
        cluster = cluster or self.machines[machine_id].cluster
        self.put(machine_id, _AFTER[call], "" if _AFTER[call] in _UNBOUND else cluster)
        answer = self.machines[machine_id]
        await self.call_gate.wait()
        return answer


class ScriptedOperators:
    """Operators that answer blobs at once and drains when told to."""

    def __init__(self) -> None:
        self.connected_clusters = {"c"}
        self.blob_error: Exception | None = None
        self.drained = asyncio.Event()
        # Machines that a blob was asked for, and nodes that were to be emptied.
        self.asked: list[str] = []
        self.emptied: list[str] = []

    def connected(self, cluster: str) -> bool:
        return cluster in self.connected_clusters

    async def request_blob(self, cluster: str, machine_id: str, requirements: Sequence[Requirement]) -> bytes:
        self.asked.append(machine_id)
        if self.blob_error:
            raise self.blob_error
        return b"blob"

    async def drain(self, cluster: str, nodes: Sequence[str], grace_seconds: int, preemptor_priority: int) -> str:
        if cluster not in self.connected_clusters:
            raise NoSession(cluster)
        self.emptied += nodes
        await self.drained.wait()
        return ""


@dataclass
class World:
    """Time stands still unless it is moved."""

    directory: Path
    provider: ScriptedProvider = field(default_factory=ScriptedProvider)
    operators: ScriptedOperators = field(default_factory=ScriptedOperators)
    now: float = 1000.0
    wakes: int = 0
    incremental: bool = True
    whole_every_seconds: float = math.inf
    # What the shard calls in place of the scripted provider.
    other_provider: Provider | None = None

    def __post_init__(self) -> None:
        def clock() -> float:
            return self.now

        provider = self.other_provider or self.provider
        self.registry = CollectorRegistry()
        self.metrics = ShardMetrics(self.registry)
        self.inventory = Inventory(clock)
        self.needs = NeedsTable(guard=False)
        self.holds = Backoff(clock)
        self.sent: list[Notice] = []
        self.notices = Notices(self.sent.append, "node-", self.inventory.machines.get)
        self.domains = Domains(self.directory)
        self.listed = Listed(self.inventory, lambda: self.reconciler.start_over())
        self.quotas = Quotas(self.directory, self.inventory, self.metrics)
        self.executor = Executor(
            self.inventory,
            self.needs,
            provider,
            self.operators,
            self.notices,
            self.holds,
            self.metrics,
            AuditLog(None),
            4,
            self._wake,
            self.domains.contains,
            self.quotas.refuse,
            clock,
            clock,
        )
        self.inventory.observer = observer(self.executor, self.notices, self.holds)
        self.reconciler = Reconciler(
            self.inventory,
            DEFAULT_PROVIDER,
            provider,
            self.executor,
            self.notices,
            self.domains,
            self.listed,
            self.metrics,
            self.incremental,
            self.whole_every_seconds,
            clock,
        )

        self.reconcilers = Reconcilers({DEFAULT_PROVIDER: self.reconciler}, self.domains, self.inventory, self.metrics)

    def _wake(self) -> None:
        self.wakes += 1

    async def with_machine(self, state: MachineState, cluster: str = "", machine_id: str = "m") -> None:
        """The provider has such a machine, and the shard knows."""
        self.provider.put(machine_id, state, cluster)
        await self.reconciler.reconcile()

    def submit(self, kind: ActionKind, machine_id: str = "m", grace_seconds: int = 0) -> object:
        buys = kind in (ActionKind.BOOTSTRAP, ActionKind.PROVISION)
        cluster = "" if kind is ActionKind.DELETE else "c"
        profile = PROFILE if buys else None
        action = Action(kind, machine_id, cluster, "test", profile, grace_seconds=grace_seconds)
        return self.executor.submit(action, cycle=1)

    async def settle(self) -> None:
        """Let every task that can go on do so."""
        for _ in range(20):
            await asyncio.sleep(0)

    def state(self, machine_id: str = "m") -> MachineState:
        return self.inventory.machines[machine_id].state

    def told(self) -> list[tuple[str, bool]]:
        return [(notice.machine.state.label, notice.removed) for notice in self.sent]

    def outcomes(self, kind: ActionKind) -> dict[str, float]:
        return {
            sample.labels["outcome"]: sample.value
            for sample in next(iter(self.metrics.outcomes.collect())).samples
            if sample.name.endswith("_total") and sample.labels["kind"] == kind and sample.value
        }

    def observations(self, histogram: str) -> float:
        return self.registry.get_sample_value(f"bigfleet_shard_{histogram}_count") or 0.0

"""Reconcile: take over what the provider says of its machines, whole at first and then what changed (§3.14)."""

import asyncio
from collections.abc import Iterable

import structlog

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import MachineState
from bigfleet.shard.convert import BadMachine, machine_from_wire
from bigfleet.shard.domains import Domains
from bigfleet.shard.execute import Executor
from bigfleet.shard.inventory import Inventory, Rejected
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notices
from bigfleet.shard.providerclient import Provider, ProviderError

log = structlog.get_logger()

# Machines taken over before the event loop gets its turn.
_BATCH = 500
# A List of so many machines leaves memory that is worth giving back.
_MANY = 10_000
# So many doubtful machines are cheaper to list than to get one by one.
_MAX_GETS = 256
_GET_CONCURRENCY = 16


class Reconciler:
    """Keeps the inventory at what the provider last said, except where a call of our own is under way."""

    def __init__(
        self,
        inventory: Inventory,
        provider: Provider,
        executor: Executor,
        notices: Notices,
        domains: Domains,
        metrics: ShardMetrics,
    ) -> None:
        self._inventory = inventory
        self._provider = provider
        self._executor = executor
        self._notices = notices
        self._domains = domains
        self._metrics = metrics
        self._revision = b""
        self._from_start = True
        # A large List has been taken over; whoever gives its memory back clears this.
        self.told_of_many = False
        # Latches at the first whole List: from then on the shard knows its fleet.
        self.ready = False

    def start_over(self) -> None:
        """List everything next time."""
        self._from_start = True

    async def reconcile(self) -> int:
        """One List; how many machines changed state. Raises ProviderError, and then the last view stays."""
        if self._from_start or len(self._inventory.doubtful) > _MAX_GETS:
            self._revision, self._from_start = b"", False
        self._executor.called.clear()
        answer = await self._provider.list(self._revision)
        changes = await self._take_all(answer.machines)
        changes += self._remove(answer.removed_ids)
        if answer.full or not self._revision:
            listed = {message.id for message in answer.machines}
            changes += self._remove([machine_id for machine_id in self._inventory.machines if machine_id not in listed])
        self._revision = answer.revision
        self.told_of_many = self.told_of_many or len(answer.machines) >= _MANY
        changes += await self._reread()
        self.ready = True
        return changes

    async def _take_all(self, messages: Iterable[provider_pb2.Machine]) -> int:
        changes = 0
        for index, message in enumerate(messages, 1):
            changes += self._take(message)
            if index % _BATCH == 0:
                await asyncio.sleep(0)
        return changes

    async def _reread(self) -> int:
        """Get what a List could not tell, because a call of ours was under way or was never answered."""
        gate = asyncio.Semaphore(_GET_CONCURRENCY)

        async def reread(machine_id: str) -> int:
            async with gate:
                self._executor.called.discard(machine_id)
                try:
                    message = await self._provider.get(machine_id)
                except ProviderError as error:
                    return self._remove([machine_id]) if error.not_found else 0
            self._inventory.doubtful.discard(machine_id)
            return self._take(message)

        waiting = [machine_id for machine_id in self._inventory.doubtful if not self._executor.busy(machine_id)]
        return sum(await asyncio.gather(*map(reread, waiting)))

    def _take(self, message: provider_pb2.Machine) -> int:
        """1 when the machine's state changed."""
        try:
            machine = machine_from_wire(message)
            if self._may_be_stale(machine.id, machine.state):
                return 0
            if not self._domains.contains(machine):
                self._inventory.forget(machine.id)
                self._notices.drop(machine.id)
                return 0
            return int(self._inventory.observe(machine))
        except BadMachine as error:
            self._reject("structural", error)
        except Rejected as error:
            self._reject(error.reason, error)
        return 0

    def _remove(self, machine_ids: Iterable[str]) -> int:
        return sum(
            self._inventory.vanish(machine_id) for machine_id in machine_ids if not self._may_be_stale(machine_id, None)
        )

    def _may_be_stale(self, machine_id: str, state: MachineState | None) -> bool:
        """Whether this answer may be older than our own last call for the machine; if so, it is asked for again."""
        self._executor.overtake(machine_id, state)
        if not self._executor.busy(machine_id) and machine_id not in self._executor.called:
            return False
        self._inventory.doubtful.add(machine_id)
        return True

    def _reject(self, reason: str, error: Exception) -> None:
        self._metrics.machines_rejected.labels(reason).inc()
        log.error("machine rejected, its last good description stays", error=str(error))

"""Reconcile: take over what the provider says of its machines, whole at first and then what changed.

See docs/reference/engine.md#reconcile.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable

import structlog

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import Machine, MachineState
from bigfleet.shard.convert import BadMachine, machine_from_wire
from bigfleet.shard.inventory.domaintally import DomainTally
from bigfleet.shard.inventory.inventory import Inventory, Rejected
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notices
from bigfleet.shard.provider.client import Provider, ProviderError
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.execute import Executor
from bigfleet.shard.provider.listed import Listed

log = structlog.get_logger()

# Machines taken over before the event loop gets its turn.
_BATCH = 500
# A List of so many machines leaves memory that is worth giving back.
_MANY = 10_000
# So many doubtful machines are cheaper to list than to get one by one.
_MAX_GETS = 256
_GET_CONCURRENCY = 16


class _Walk:
    """A way through the provider's inventory, page by page."""

    def __init__(self) -> None:
        # Where the next page begins; empty = at the start.
        self.revision = b""
        # What a walk from the start has not met so far; at its end, the provider has it no longer.
        self.missing: set[str] | None = None
        self.more = False
        self.met = 0
        # Machines of others by domain, of a walk from the start.
        self.tally = DomainTally()


class Reconciler:
    """Keeps the inventory at what the provider last said, except where a call of our own is under way."""

    def __init__(
        self,
        inventory: Inventory,
        name: str,
        provider: Provider,
        executor: Executor,
        notices: Notices,
        domains: Domains,
        listed: Listed,
        metrics: ShardMetrics,
        incremental: bool = True,
        whole_every_seconds: float = math.inf,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inventory = inventory
        self._origins = inventory.origins
        self._name = name
        self._provider = provider
        self._executor = executor
        self._notices = notices
        self._domains = domains
        self._listed = listed
        self._metrics = metrics
        self._incremental = incremental
        self._whole_every_seconds = whole_every_seconds
        self._monotonic = monotonic
        self._news = _Walk()
        # Looks through everything beside the news.
        self._round: _Walk | None = None
        self._round_due = monotonic() + whole_every_seconds
        # A large List has been taken over; the cycle that gives its memory back clears this.
        self.told_of_many = False
        # Latches at the first whole List: from then on the shard knows its fleet.
        self.ready = False
        # Nothing that the provider listed before the last `start_over` counts any more.
        self.caught_up = False

    def start_over(self) -> None:
        """List everything next time."""
        self._news = _Walk()
        self.caught_up = False

    async def reconcile(self, page_seconds: float | None = None) -> int:
        """List what changed, or everything; how many machines changed state. No page may take longer than it is given.

        Raises ProviderError or TimeoutError. Then the last view stays, and the next time goes on after the last page.
        """
        if not self._news.more and (not self._incremental or len(self._askable()) > _MAX_GETS):
            self.start_over()
        changes, news = 0, None
        # Another walk begins when our domains change meanwhile.
        while news is not self._news or news.more:
            news = self._news
            changes += await self._step(news, page_seconds)
        changes += await self._look_round(page_seconds)
        async with asyncio.timeout(page_seconds):
            changes += await self._reread()
        self.ready = True
        self.caught_up = news is self._news
        return changes

    async def _look_round(self, page_seconds: float | None) -> int:
        """One page of a walk through everything, when one is due: some machines have gone without a word."""
        if self._round is None:
            if self._monotonic() < self._round_due:
                return 0
            self._round = _Walk()
        return await self._step(self._round, page_seconds)

    async def _step(self, walk: _Walk, page_seconds: float | None) -> int:
        """Ask for a walk's next page and take it over."""
        called = self._executor.called
        called -= self._origins.among(called, self._name)
        async with asyncio.timeout(page_seconds):
            page = await self._provider.list(walk.revision)
        if page.full or not walk.revision:
            walk.missing = self._origins.among(self._inventory.machines, self._name)
            walk.tally = self._listed.begin()
        changes = await self._take_all(page.machines, walk)
        changes += self._remove(self._origins.among(page.removed_ids, self._name))
        if walk.missing is not None:
            walk.missing.difference_update(message.id for message in page.machines)
        walk.revision, walk.more = page.revision, page.more
        walk.met += len(page.machines)
        if page.more:
            return changes
        self.told_of_many = self.told_of_many or walk.met >= _MANY
        walk.met = 0
        if walk.missing is not None:
            changes += self._remove(walk.missing)
            walk.missing = None
            self._listed.end(self._name, walk.tally)
            self._round, self._round_due = None, self._monotonic() + self._whole_every_seconds
        return changes

    async def _take_all(self, messages: Iterable[provider_pb2.Machine], walk: _Walk) -> int:
        count_other = self._count_news if walk.missing is None else walk.tally.count
        changes = 0
        for index, message in enumerate(messages, 1):
            changes += self._take(message, count_other)
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
            return self._take(message, self._count_news)

        return sum(await asyncio.gather(*map(reread, self._askable())))

    def _askable(self) -> list[str]:
        """The doubtful machines whose own call is over: what is asked of the others now would be stale again."""
        doubtful = self._origins.among(self._inventory.doubtful, self._name)
        return [machine_id for machine_id in doubtful if not self._executor.busy(machine_id)]

    def _count_news(self, machine: Machine) -> None:
        self._listed.passed(self._name, machine)

    def _take(self, message: provider_pb2.Machine, count_other: Callable[[Machine], None]) -> int:
        """1 when the machine's state changed. One that is not ours is only counted."""
        try:
            if self._origins.elsewhere(message.id, self._name):
                raise Rejected("other_provider", f"{message.id}: {self._name} lists a machine of another provider")
            machine = machine_from_wire(message)
            if self._may_be_stale(machine.id, machine.state):
                return 0
            if not self._domains.contains(machine):
                count_other(machine)
                self._inventory.forget(machine.id)
                self._notices.drop(machine.id)
                return 0
            self._origins.claim(machine.id, self._name)
            changed = self._inventory.observe(machine)
            self._inventory.doubtful.discard(machine.id)
            return int(changed)
        except BadMachine as error:
            self._reject("structural", error)
        except Rejected as error:
            self._reject(error.reason, error)
            if message.id not in self._inventory.machines:
                self._origins.release(message.id)
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

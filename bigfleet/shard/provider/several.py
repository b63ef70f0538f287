"""Several providers as one: calls go where the machine is from, and one that fails does not stop the others."""

import asyncio
from collections.abc import Mapping

import grpc
import structlog

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.inventory.origins import Origins
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.provider.client import Provider, ProviderError
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.reconcile import Reconciler

log = structlog.get_logger()


class RoutedCalls:
    """The mutating calls of the provider that a machine is from."""

    def __init__(self, providers: Mapping[str, Provider], origins: Origins) -> None:
        self._providers = providers
        self._origins = origins

    async def create(self, machine_id: str) -> provider_pb2.Machine | None:
        return await self._of("Create", machine_id).create(machine_id)

    async def configure(
        self, machine_id: str, cluster: str, blob: bytes, metadata: dict[str, str]
    ) -> provider_pb2.Machine | None:
        return await self._of("Configure", machine_id).configure(machine_id, cluster, blob, metadata)

    async def drain(self, machine_id: str, grace_seconds: int) -> provider_pb2.Machine | None:
        return await self._of("Drain", machine_id).drain(machine_id, grace_seconds)

    async def delete(self, machine_id: str) -> provider_pb2.Machine | None:
        return await self._of("Delete", machine_id).delete(machine_id)

    def _of(self, call: str, machine_id: str) -> Provider:
        provider = self._providers.get(self._origins.of(machine_id))
        if provider is None:
            raise ProviderError(call, grpc.StatusCode.NOT_FOUND, f"no provider of this shard has {machine_id}")
        return provider


class Reconcilers:
    """The reconcilers of all providers, as the cycle sees them."""

    def __init__(
        self, by_provider: Mapping[str, Reconciler], domains: Domains, inventory: Inventory, metrics: ShardMetrics
    ) -> None:
        self._by_provider = by_provider
        self._domains = domains
        self._inventory = inventory
        self._metrics = metrics
        # Of a provider whose List failed, the next ones: nobody waits for them until one succeeds.
        self._unawaited: dict[str, asyncio.Task[int | None]] = {}
        for name in by_provider:
            metrics.list_errors.labels(name)

    @property
    def ready(self) -> bool:
        """Whether every provider has been listed whole: what is unknown of the fleet would be bought anew."""
        return all(each.ready for each in self._by_provider.values())

    @property
    def told_of_many(self) -> bool:
        """A large List has been taken over."""
        return any(each.told_of_many for each in self._by_provider.values())

    def memory_given_back(self) -> None:
        for each in self._by_provider.values():
            each.told_of_many = False

    def start_over(self) -> None:
        """List everything next time."""
        for each in self._by_provider.values():
            each.start_over()

    async def reconcile(self, page_seconds: float | None = None) -> int | None:
        """How many machines changed state; None if no provider has answered.

        A provider that has failed is asked again beside the cycle, which waits for the others only.
        """
        awaited = [name for name in self._by_provider if name not in self._unawaited]
        results = list(await asyncio.gather(*(self._reconcile(name, page_seconds) for name in awaited)))
        failed = [name for name, changed in zip(awaited, results, strict=True) if changed is None]
        for name, task in list(self._unawaited.items()):
            if task.done():
                del self._unawaited[name]
                if (changed := task.result()) is None:
                    failed.append(name)
                results.append(changed)
        if len(self._by_provider) > 1:
            for name in failed:
                self._unawaited[name] = asyncio.create_task(self._reconcile(name, page_seconds))
        if self._domains.leaving and all(each.caught_up for each in self._by_provider.values()):
            self._leave()
        changes = [changed for changed in results if changed is not None]
        return sum(changes) if changes else None

    async def close(self) -> None:
        for task in self._unawaited.values():
            task.cancel()
        await asyncio.gather(*self._unawaited.values(), return_exceptions=True)

    async def _reconcile(self, name: str, page_seconds: float | None) -> int | None:
        """None when the provider did not answer: the last view of its machines stays."""
        try:
            return await self._by_provider[name].reconcile(page_seconds)
        except (ProviderError, TimeoutError) as error:
            self._metrics.reconcile_errors.inc()
            self._metrics.list_errors.labels(name).inc()
            log.warning("reconcile failed", provider=name, error=str(error) or "no answer in time")
            return None

    def _leave(self) -> None:
        """What was given up is left when no call for one of its machines can be on its way."""
        machines = self._inventory.machines
        doubtful = map(machines.get, self._inventory.doubtful)
        if all(machine is None or self._domains.contains(machine) for machine in doubtful):
            self._domains.left()

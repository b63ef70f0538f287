"""The fake backend: machines that cost nothing and take a believable time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from bigfleet.provider.fake.faults import FaultInjector
from bigfleet.provider.fake.latency import Latencies, Latency
from bigfleet.provider.fake.observing import Observer
from bigfleet.provider.fake.readiness import ReadySets
from bigfleet.provider.kit import Kind, MachineRecord


class FakeBackend:
    """Sleeps instead of working; learns from the clusters' phone-home streams which nodes are Ready."""

    def __init__(
        self,
        ready: ReadySets,
        latencies: Latencies,
        injector: FaultInjector,
        seed: int,
        observer: Observer | None = None,
    ) -> None:
        self._ready = ready
        self._observer = observer or Observer()
        self._latencies = latencies
        self._injector = injector
        self._random = Random(f"{seed}/latency")

    def admit(self, kind: Kind, machine: MachineRecord) -> None:
        self._injector.admit(kind, machine)

    async def create(self, machine: MachineRecord) -> str:
        await asyncio.sleep(self._seconds(self._latencies.create))
        self._injector.may_fail(Kind.CREATE)
        self._observer.created(machine)
        return host_of(machine.id)

    async def configure(self, machine: MachineRecord, bootstrap_blob: bytes) -> None:  # noqa: ARG002
        self._observer.configuring(machine)
        if self._ready.has(machine.cluster, machine.id):
            self._observer.arrived(machine.cluster, machine.id)  # the cluster will not report what has not changed
        with self._giving_up(machine):
            await asyncio.sleep(self._seconds(self._latencies.configure))
            self._injector.may_fail(Kind.CONFIGURE)
        self._observer.carried_out(machine.id)

    async def confirm_node_ready(self, machine: MachineRecord) -> None:
        with self._giving_up(machine):
            await self._ready.wait(machine.cluster, machine.id)

    async def drain(self, machine: MachineRecord, grace_seconds: int) -> None:
        self._observer.draining(machine)
        await asyncio.sleep(min(self._seconds(self._latencies.drain), grace_seconds))
        self._injector.may_fail(Kind.DRAIN)
        self._ready.forget(machine.cluster, machine.id)
        self._observer.left(machine)

    async def delete(self, machine: MachineRecord) -> None:
        self._observer.left(machine)  # a machine whose drain failed was not told as left yet
        await asyncio.sleep(self._seconds(self._latencies.delete))
        self._injector.may_fail(Kind.DELETE)

    @contextmanager
    def _giving_up(self, machine: MachineRecord) -> Iterator[None]:
        """A Configure that fails, or that the kit cancels at its time-out, is over."""
        try:
            yield
        except BaseException:
            self._observer.gave_up(machine)
            raise

    def _seconds(self, latency: Latency) -> float:
        return latency.sample(self._random) * self._injector.faults.slow_factor


def host_of(machine_id: str) -> str:
    """The reference of the host that a machine of the fake stands on."""
    return f"host-{machine_id}"

"""The fake backend: machines that cost nothing and take a believable time."""

import asyncio
from random import Random

from bigfleet.provider.faults import FaultInjector
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.latency import Latencies, Latency
from bigfleet.provider.readiness import ReadySets


class FakeBackend:
    """Sleeps instead of working; learns from the clusters' phone-home streams which nodes are Ready."""

    def __init__(self, ready: ReadySets, latencies: Latencies, injector: FaultInjector, seed: int) -> None:
        self._ready = ready
        self._latencies = latencies
        self._injector = injector
        self._random = Random(f"{seed}/latency")

    def admit(self, kind: Kind, machine: MachineRecord) -> None:
        self._injector.admit(kind, machine)

    async def create(self, machine: MachineRecord) -> str:
        await asyncio.sleep(self._seconds(self._latencies.create))
        self._injector.may_fail(Kind.CREATE)
        return host_of(machine.id)

    async def configure(self, machine: MachineRecord, bootstrap_blob: bytes) -> None:  # noqa: ARG002
        await asyncio.sleep(self._seconds(self._latencies.configure))
        self._injector.may_fail(Kind.CONFIGURE)

    async def confirm_node_ready(self, machine: MachineRecord) -> None:
        await self._ready.wait(machine.cluster, machine.id)

    async def drain(self, machine: MachineRecord, grace_seconds: int) -> None:
        await asyncio.sleep(min(self._seconds(self._latencies.drain), grace_seconds))
        self._injector.may_fail(Kind.DRAIN)
        self._ready.forget(machine.cluster, machine.id)

    async def delete(self, machine: MachineRecord) -> None:  # noqa: ARG002
        await asyncio.sleep(self._seconds(self._latencies.delete))
        self._injector.may_fail(Kind.DELETE)

    def _seconds(self, latency: Latency) -> float:
        return latency.sample(self._random) * self._injector.faults.slow_factor


def host_of(machine_id: str) -> str:
    """The reference of the host that a machine of the fake stands on."""
    return f"host-{machine_id}"

"""The fake backend: machines that cost nothing and take a believable time."""

import asyncio
from dataclasses import dataclass
from random import Random

from bigfleet.provider.kit import Kind, MachineRecord, Refused, TransitionFailed
from bigfleet.provider.latency import Latencies
from bigfleet.provider.readiness import ReadySets


@dataclass(frozen=True)
class Faults:
    """What goes wrong on purpose."""

    refuse_configure: bool = False
    """Every Configure is answered UNAVAILABLE."""
    configure_failure_ratio: float = 0.0
    """This share of accepted Configures ends Failed."""

    def __post_init__(self) -> None:
        if not 0 <= self.configure_failure_ratio <= 1:
            raise ValueError(f"configure_failure_ratio is {self.configure_failure_ratio}, it must be in [0, 1]")


class FakeBackend:
    """Sleeps instead of working; learns from the clusters' phone-home streams which nodes are Ready."""

    def __init__(self, ready: ReadySets, latencies: Latencies, faults: Faults, seed: int) -> None:
        self._ready = ready
        self._latencies = latencies
        self._faults = faults
        # Apart, so that a fault's draw does not shift the latencies of a run with the same seed.
        self._latency_random = Random(f"{seed}/latency")
        self._fault_random = Random(f"{seed}/fault")

    def admit(self, kind: Kind, machine: MachineRecord) -> None:
        if kind is Kind.CONFIGURE and self._faults.refuse_configure:
            raise Refused(f"configure of machine {machine.id!r} refused by fault injection")

    async def create(self, machine: MachineRecord) -> str:
        await asyncio.sleep(self._latencies.create.sample(self._latency_random))
        return host_of(machine.id)

    async def configure(self, machine: MachineRecord, bootstrap_blob: bytes) -> None:  # noqa: ARG002
        await asyncio.sleep(self._latencies.configure.sample(self._latency_random))
        if self._fault_random.random() < self._faults.configure_failure_ratio:
            raise TransitionFailed("failed by fault injection")

    async def confirm_node_ready(self, machine: MachineRecord) -> None:
        await self._ready.wait(machine.cluster, machine.id)

    async def drain(self, machine: MachineRecord, grace_seconds: int) -> None:
        await asyncio.sleep(min(self._latencies.drain.sample(self._latency_random), grace_seconds))
        self._ready.forget(machine.cluster, machine.id)

    async def delete(self, machine: MachineRecord) -> None:  # noqa: ARG002
        await asyncio.sleep(self._latencies.delete.sample(self._latency_random))


def host_of(machine_id: str) -> str:
    """The reference of the host that a machine of the fake stands on."""
    return f"host-{machine_id}"

"""What a provider has to bring: how to make, bind, empty and give back a machine."""

from typing import Protocol, runtime_checkable

from bigfleet.provider.kit.records import MachineRecord
from bigfleet.provider.kit.transitions import Kind


class Backend(Protocol):
    """The substrate behind a provider.

    The actions run in the background after the caller has had its ack. They may take as long as they need: the
    kit cancels them at the transition's time-out. An exception makes the machine Failed; `TransitionFailed` is the
    one whose words are meant for last_error.

    An action that a restart interrupted is called again with the same machine and the same `machine.operation`: it
    must find what its first try has done, and go on from there.
    """

    def admit(self, kind: Kind, machine: MachineRecord) -> None:
        """Raise Refused to turn a legal call away before it is accepted; the machine stays as it is."""

    async def create(self, machine: MachineRecord) -> str:
        """Bring the machine into being; returns its host's reference."""

    async def configure(self, machine: MachineRecord, bootstrap_blob: bytes) -> None:
        """Hand the blob to the host, which then joins `machine.cluster`."""

    async def drain(self, machine: MachineRecord, grace_seconds: int) -> None:
        """Take the host out of its cluster; the grace bounds the graceful part."""


@runtime_checkable
class Deleter(Protocol):
    """A backend that can give hosts back. Without it Delete is UNIMPLEMENTED, as it is for any bare metal machine."""

    async def delete(self, machine: MachineRecord) -> None:
        """Give the host back."""


@runtime_checkable
class ReadinessChecker(Protocol):
    """A backend that can see whether a node has joined (BF-0056). Without it the gate is not enforced."""

    async def confirm_node_ready(self, machine: MachineRecord) -> None:
        """Return once the machine's node is Ready in `machine.cluster`."""

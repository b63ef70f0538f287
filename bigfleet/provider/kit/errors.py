"""What a provider can answer instead of an ack, and what a backend can raise (docs/reference/wire.md#order-of-checks).

KitError      an answer with a gRPC code
├── InvalidArgument     INVALID_ARGUMENT
├── Fenced              FAILED_PRECONDITION: this code means fencing and nothing else
├── UnknownMachine      NOT_FOUND
├── IllegalTransition   INTERNAL
├── Unsupported         UNIMPLEMENTED
├── Refused             UNAVAILABLE: the backend does not take the call now; the machine stays as it is
└── Unstored            UNAVAILABLE: the disk does not take the change; the process is about to end
TransitionFailed        a backend's word that an accepted transition came to nothing: the machine goes Failed
"""

from typing import ClassVar

import grpc

from bigfleet.errors import BigFleetError


class KitError(BigFleetError):
    """An RPC's answer when it is not a success; the machine's state is untouched."""

    code: ClassVar[grpc.StatusCode]


class InvalidArgument(KitError):
    code = grpc.StatusCode.INVALID_ARGUMENT


class Fenced(KitError):
    """The caller's token is not newer than the last one seen for this shard and machine."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class UnknownMachine(KitError):
    code = grpc.StatusCode.NOT_FOUND

    def __init__(self, machine_id: str) -> None:
        super().__init__(f"no machine {machine_id!r}")


class IllegalTransition(KitError):
    code = grpc.StatusCode.INTERNAL


class Unsupported(KitError):
    code = grpc.StatusCode.UNIMPLEMENTED


class Refused(KitError):
    code = grpc.StatusCode.UNAVAILABLE


class Unstored(KitError):
    code = grpc.StatusCode.UNAVAILABLE


class TransitionFailed(BigFleetError):
    """Ends up in the machine's last_error."""

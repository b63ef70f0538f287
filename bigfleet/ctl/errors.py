"""What went wrong, in one sentence, with what would help.

CtlError              exit code 1
└── CtlUsageError     exit code 2: the command line makes no sense
"""

import grpc

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.rpc.leaderclient import CoordinatorError, NoLeader, Unclear
from bigfleet.rpc.reach import tls_hint


class CtlError(BigFleetError):
    """For people to read; `hint` says what would help."""

    exit_code = ExitStatus.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CtlUsageError(CtlError):
    exit_code = ExitStatus.WRONG_USE


_HINTS = {
    grpc.StatusCode.PERMISSION_DENIED: "run `bigfleet certs inspect` to see who you are; changes take bigfleet://admin",
    grpc.StatusCode.UNAVAILABLE: "is it running there, and does it speak TLS as you do?",
    grpc.StatusCode.DEADLINE_EXCEEDED: "give it longer with --timeout",
    grpc.StatusCode.ALREADY_EXISTS: "free it first with `bigfleetctl unassign-domain`",
    grpc.StatusCode.UNIMPLEMENTED: "is it the right port? The server there does not know this call",
    grpc.StatusCode.NOT_FOUND: "`bigfleetctl list-shards` and `list-providers` show those that are registered",
}


def from_rpc(error: grpc.aio.AioRpcError) -> CtlError:
    """An answer of the leader, or of a shard, that is an error."""
    code = error.code()
    kind = CtlUsageError if code == grpc.StatusCode.INVALID_ARGUMENT else CtlError
    return kind(f"{error.details() or code.name} ({code.name})", _HINTS.get(code, ""))


def from_coordinators(error: CoordinatorError) -> CtlError:
    """No answer of a leader."""
    tried = "".join(f"\n  {address} {what}" for address, what in error.tried.items())
    if isinstance(error, Unclear):
        return CtlError(f"{error}: the change was made, or was not{tried}", "look with a list- command, then ask again")
    where = "--coordinator HOST:PORT[,…] or BIGFLEET_COORDINATOR says where the coordinators are"
    if isinstance(error, NoLeader) and error.only_strangers:
        addresses = " or ".join(error.tried)
        return CtlError(f"no server at {addresses} answers as a coordinator: is it the coordinator's port?", where)
    if "does not lead" in tried:
        hint = "is the leader one of your --coordinator addresses? Two of three must be up to have one"
    else:
        hint = tls_hint(tried) or where
    return CtlError(f"{error}{tried}", hint)

"""What an apiserver can answer instead of an object.

KubeError
├── NotFound         404
├── AlreadyExists    409, reason AlreadyExists
├── Conflict         409, any other reason
├── Gone             410: the watch's resource version is too old, list again
├── TooManyRequests  429: flow control, or a PodDisruptionBudget that refuses an eviction
└── Unreachable      no answer at all: refused, reset, timed out
KubeConfigError      a kubeconfig that cannot be used (a ValueError)
"""

import msgspec

from bigfleet.errors import BigFleetError, ExitStatus


class KubeError(BigFleetError):
    """An error status from an apiserver, with its own words."""

    # When the server asked us to come back; None means that it did not.
    retry_after_seconds: float | None = None

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message or reason} (HTTP {status})")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(KubeError):
    """No such object, or no such resource type."""


class AlreadyExists(KubeError):
    """An object of this name exists."""


class Conflict(KubeError):
    """The object changed since it was read."""


class Gone(KubeError):
    """The requested resource version has been compacted away."""


class TooManyRequests(KubeError):
    """Asked to come back later."""


class Unreachable(KubeError):
    """The apiserver gave no answer; whether it did what was asked is unknown."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(0, "Unreachable", str(cause) or type(cause).__name__)


class KubeConfigError(BigFleetError, ValueError):
    """A kubeconfig that is missing something, or asks for a way of logging in that we do not have."""

    exit_code = ExitStatus.WRONG_USE


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


def error_from_status(status: int, body: bytes) -> KubeError:
    """Turn an HTTP error (or an ERROR event of a watch) into the matching exception."""
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        answer = _Status(message=body[:300].decode(errors="replace"))
    code = answer.code or status
    kind: type[KubeError] = {404: NotFound, 410: Gone, 429: TooManyRequests}.get(code, KubeError)
    if code == 409:
        kind = AlreadyExists if answer.reason == "AlreadyExists" else Conflict
    return kind(code, answer.reason, answer.message)

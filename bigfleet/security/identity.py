"""The identity of a peer: exactly one `bigfleet://` URI in its certificate."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from bigfleet.errors import BigFleetError

if TYPE_CHECKING:  # enrolment knows identities too, and speaks no gRPC
    import grpc

_SCHEME = "bigfleet://"
_NAMED_KINDS = frozenset({"cluster", "shard", "provider", "coordinator", "prometheus", "grafana"})
_NAMELESS_KINDS = frozenset({"admin", "readonly"})


class InvalidIdentity(BigFleetError):
    """A certificate names no identity, several, or one that we cannot read."""


@dataclass(frozen=True)
class Identity:
    """`bigfleet://<kind>/<name>`; `admin` and `readonly` are people's tools and carry no name."""

    kind: str
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _NAMED_KINDS | _NAMELESS_KINDS:
            raise InvalidIdentity(f"unknown kind of identity {self.kind!r}")
        if (self.kind in _NAMED_KINDS) != bool(self.name) or "/" in self.name:
            raise InvalidIdentity(f"{self.kind!r} cannot be named {self.name!r}")

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read a `bigfleet://` URI."""
        if not uri.startswith(_SCHEME):
            raise InvalidIdentity(f"{uri!r} is not a {_SCHEME} URI")
        kind, slash, name = uri.removeprefix(_SCHEME).partition("/")
        if slash and not name:
            raise InvalidIdentity(f"{uri!r} ends where a name should stand")
        return cls(kind, name)

    @property
    def uri(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{_SCHEME}{self.kind}/{self.name}" if self.name else f"{_SCHEME}{self.kind}"


def identity_of(uris: Iterable[str]) -> Identity:
    """The one identity among a certificate's URI SANs."""
    ours = [uri for uri in uris if uri.startswith(_SCHEME)]
    if len(ours) != 1:
        raise InvalidIdentity(f"the certificate carries {len(ours)} {_SCHEME} identities, it must carry exactly one")
    return Identity.parse(ours[0])


def peer_identity(context: "grpc.aio.ServicerContext[Any, Any]") -> Identity | None:
    """The caller's identity, or None on plaintext. Raises InvalidIdentity when its certificate is not clear."""
    auth: dict[str, Iterable[bytes]] = context.auth_context()  # type: ignore[assignment]
    if set(auth.get("transport_security_type", ())) <= {b"insecure"}:
        return None
    return identity_of(uri.decode(errors="replace") for uri in auth.get("peer_uri", ()))


async def require(
    context: "grpc.aio.ServicerContext[Any, Any]", *kinds: str, name: str | None = None
) -> Identity | None:
    """Let the call go on only for a peer of one of `kinds` (called `name`, when given).

    Ends the call with PERMISSION_DENIED otherwise. Plaintext has no identities: it returns None and checks nothing.
    """
    from grpc import StatusCode

    try:
        identity = peer_identity(context)
    except InvalidIdentity as error:
        await context.abort(StatusCode.PERMISSION_DENIED, str(error))
    if identity is None:
        return None
    if identity.kind not in kinds:
        await context.abort(StatusCode.PERMISSION_DENIED, f"{identity} may not do this: it takes {' or '.join(kinds)}")
    if name is not None and identity.name != name:
        await context.abort(StatusCode.PERMISSION_DENIED, f"{identity} may not speak for {name!r}")
    return identity

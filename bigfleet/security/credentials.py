"""gRPC ends of the mutual TLS: server credentials and channels that check the server's role.

Certificates are renewed on disk while processes run: a server looks for a new one at every handshake, a client dials
again.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Literal

import grpc

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.security.files import IdentityFiles, IdentityPaths
from bigfleet.security.identity import Identity, InvalidIdentity

Role = Literal["shard", "provider", "coordinator"]

# gRPC's default of 4 MiB silently froze large roll-ups (docs/reference/wire.md#message-size).
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_KEEPALIVE_MS = 20_000
_LAST_PORT = 65_535
_KEEPALIVE_TIMEOUT_MS = 10_000
# What a channel that is given up leaves to its last calls.
_LONGEST_CALL_SECONDS = 120.0

GRPC_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # A server that is not told otherwise hangs up on clients that ping an idle session this often.
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    # Both sides ping: a peer that is cut off cannot close the connection itself.
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)

CHANNEL_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *GRPC_OPTIONS,
    # gRPC waits up to two minutes between dials; a restarted peer should be back within seconds.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Peers are pods: a proxy meant for the way out must not stand between them.
    ("grpc.enable_http_proxy", 0),
)


class CannotListen(BigFleetError):
    """The address is invalid or taken, or the certificate is for another identity."""

    exit_code = ExitStatus.WRONG_USE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def listen(server: grpc.aio.Server, address: str, tls_dir: Path | None, who: Identity | None = None) -> int:
    """Let a server listen at `host:port`, with TLS if there is an identity; returns the port (0: any free one).

    The certificate must be for `who`: peers would refuse another one later, with less to go by.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > _LAST_PORT:
        raise CannotListen(f"{address!r} is not HOST:PORT")
    if tls_dir and who:
        _check_identity(tls_dir, who)
    credentials = _server_credentials(tls_dir) if tls_dir else None
    try:
        return server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    except RuntimeError as error:
        raise CannotListen(f"cannot listen at {address}", "run `ss -ltnp` to see what listens where") from error


def _check_identity(tls_dir: Path, who: Identity) -> None:
    try:
        shown = IdentityFiles.read(tls_dir).identity
    except InvalidIdentity as error:
        raise CannotListen(f"{tls_dir}: {error}", "run `bigfleet certs inspect` to see what is there") from error
    if shown != who:
        says = f"the certificate in {tls_dir} is for {shown}, not for {who}"
        raise CannotListen(says, "--id and --tls-dir go together")


class Leaf:
    """The files of an identity, read again when the certificate was replaced; what cannot be read changes nothing."""

    def __init__(self, place: Path | IdentityPaths) -> None:
        self._paths = place if isinstance(place, IdentityPaths) else IdentityPaths.within(place)
        self._stamp = _stamp(self._paths)
        self.files = IdentityFiles.read(self._paths)

    def replaced(self) -> bool:
        """Whether the files are newer ones than a moment ago. A half-written pair counts when it is whole."""
        with suppress(OSError):
            stamp = _stamp(self._paths)
            if stamp != self._stamp:
                files = IdentityFiles.read(self._paths)
                if files.fits:
                    self._stamp, self.files = stamp, files
                    return True
        return False


def _stamp(paths: IdentityPaths) -> tuple[int, int]:
    status = paths.certificate.stat()
    return status.st_mtime_ns, status.st_ino


def _server_credentials(tls_dir: Path) -> grpc.ServerCredentials:
    """TLS with this directory's certificate, for clients that show one of the same CA."""
    leaf = Leaf(tls_dir)

    def configuration() -> grpc.ServerCertificateConfiguration:
        files = leaf.files
        return grpc.ssl_server_certificate_configuration(
            [(files.private_key, files.certificate)], root_certificates=files.ca_certificate
        )

    def newer() -> grpc.ServerCertificateConfiguration | None:
        return configuration() if leaf.replaced() else None

    # None means "as before"; the stubs do not know it.
    return grpc.dynamic_ssl_server_credentials(configuration(), newer, True)  # type: ignore[arg-type]


def channel(target: str, place: Path | IdentityPaths | None, role: Role) -> grpc.aio.Channel:
    """A channel to a server that proves to be `<role>.bigfleet`; plaintext without a place of our files."""
    return _dial(target, IdentityFiles.read(place) if place else None, role)


class Redialled:
    """A channel to one server that is dialled anew when our certificate was renewed: an old one would be refused at
    the next reconnect. Calls that are under way end on the channel that they began on."""

    def __init__(self, target: str, place: Path | IdentityPaths | None, role: Role) -> None:
        self._target = target
        self._role = role
        self._leaf = Leaf(place) if place else None
        self._channel = self._dial()
        self._retiring: set[asyncio.Task[None]] = set()

    def channel(self) -> grpc.aio.Channel:
        """The channel to use for the next call, at once: it may be closed after that."""
        if self._leaf and self._leaf.replaced():
            retiring = asyncio.create_task(self._channel.close(_LONGEST_CALL_SECONDS))
            self._retiring.add(retiring)
            retiring.add_done_callback(self._retiring.discard)
            self._channel = self._dial()
        return self._channel

    async def close(self) -> None:
        for retiring in self._retiring:
            retiring.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._channel.close()

    def _dial(self) -> grpc.aio.Channel:
        return _dial(self._target, self._leaf.files if self._leaf else None, self._role)


def _dial(target: str, files: IdentityFiles | None, role: Role) -> grpc.aio.Channel:
    if files is None:
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(files.ca_certificate, files.private_key, files.certificate)
    options = (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", f"{role}.bigfleet"))
    return grpc.aio.secure_channel(target, credentials, options=options)

"""gRPC ends of the mutual TLS: server credentials and channels that check the server's role."""

from pathlib import Path
from typing import Literal

import grpc

from bigfleet.security.files import IdentityFiles

Role = Literal["shard", "provider", "coordinator"]

# gRPC's default of 4 MiB silently froze large roll-ups (spec/engine.md §1.1).
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_KEEPALIVE_MS = 20_000
_KEEPALIVE_TIMEOUT_MS = 10_000

GRPC_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # A server that is not told otherwise hangs up on clients that ping an idle session this often.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
)

_CHANNEL_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *GRPC_OPTIONS,
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC waits up to two minutes between dials; a restarted peer should be back within seconds.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Peers are pods: a proxy meant for the way out must not stand between them.
    ("grpc.enable_http_proxy", 0),
)


def server_credentials(tls_dir: Path) -> grpc.ServerCredentials:
    """TLS with this directory's certificate, for clients that show one of the same CA."""
    files = IdentityFiles.read(tls_dir)
    return grpc.ssl_server_credentials(
        [(files.private_key, files.certificate)], root_certificates=files.ca_certificate, require_client_auth=True
    )


def channel(target: str, tls_dir: Path | None, role: Role) -> grpc.aio.Channel:
    """A channel to a server that proves to be `<role>.bigfleet`; plaintext when there is no `tls_dir`."""
    if tls_dir is None:
        return grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
    files = IdentityFiles.read(tls_dir)
    credentials = grpc.ssl_channel_credentials(files.ca_certificate, files.private_key, files.certificate)
    options = (*_CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", f"{role}.bigfleet"))
    return grpc.aio.secure_channel(target, credentials, options=options)

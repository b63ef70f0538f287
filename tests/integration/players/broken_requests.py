"""Requests that no honest client would send."""

import random
from pathlib import Path

import grpc

from bigfleet.rpc.malformed import MAX_REQUEST_BYTES
from bigfleet.security.files import IdentityFiles

# What is too large: its bytes, what the refusal says, and whether we (not gRPC itself) refuse and count it.
OVERSIZE = {
    "larger than ours": (MAX_REQUEST_BYTES + 1, f"at most {MAX_REQUEST_BYTES} are allowed", True),
    "larger than gRPC's": (257 * 1024 * 1024, "larger than max", False),
}


def boundless(address: str, place: Path | None, role: str) -> grpc.aio.Channel:
    """A channel that sends messages of any size."""
    options: list[tuple[str, int | str]] = [("grpc.max_send_message_length", -1)]
    if place is None:
        return grpc.aio.insecure_channel(address, options=options)
    files = IdentityFiles.read(place)
    credentials = grpc.ssl_channel_credentials(files.ca_certificate, files.private_key, files.certificate)
    options.append(("grpc.ssl_target_name_override", f"{role}.bigfleet"))
    return grpc.aio.secure_channel(address, credentials, options=options)


def broken(request: bytes, source: random.Random) -> bytes:
    """The request cut off, with bytes changed, with noise behind it, or noise alone."""
    match source.randrange(4):
        case 0:
            return request[: source.randrange(len(request))]
        case 1:
            return source.randbytes(source.randrange(200))
        case 2:
            return request + source.randbytes(source.randrange(1, 20))
    changed = bytearray(request)
    for _ in range(source.randrange(1, 4)):
        changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed)

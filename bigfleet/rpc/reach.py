"""Why a gRPC server does not answer, in gRPC's own words without their preamble."""

import re

import grpc

_PREAMBLE = re.compile(r"^failed to connect to all addresses; last error: \w+: (ipv[46]:\S+: )?")
_NOT_AN_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


async def trouble_with(channel: grpc.aio.Channel, seconds: float) -> str:
    """What keeps us from the server; empty if it answers. gRPC tells the reason only to a call, so we make one."""
    try:
        await channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)(b"", timeout=seconds)
    except grpc.aio.AioRpcError as error:
        if error.code() in _NOT_AN_ANSWER:
            return words_of(error)
    return ""


def words_of(error: grpc.aio.AioRpcError) -> str:
    return _PREAMBLE.sub("", error.details() or error.code().name)


def is_a_stranger(words: str) -> bool:
    """Whether these words say that a server answers, but not the one that we meant to call."""
    return any(word in words for word in ("Hostname Verification", "not in peer certificate", "http1.x server"))


def tls_hint(words: str) -> str:
    """What to look at, if these words speak of TLS."""
    if any(word in words.lower() for word in ("ssl", "handshake", "certificate", "socket closed")):
        return "the two ends do not agree on TLS: check --tls-dir with `bigfleet certs inspect`, or --plaintext"
    return ""

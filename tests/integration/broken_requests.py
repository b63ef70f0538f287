"""Requests that no honest client would send."""

import random


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

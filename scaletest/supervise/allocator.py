"""glibc's allocator, told to be frugal: it keeps what is freed, and an arena for every thread, unless asked."""

import ctypes

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 128 * 1024
_ARENAS = 2


def be_frugal() -> None:
    """Let all threads share two arenas, and large blocks go back as soon as they are freed.

    gRPC alone starts ten threads, each worth an arena: call it before there are any. Left alone, glibc takes the first
    large block that is freed as a sign to keep the next ones, and a list of Nodes or an exposition is one.
    """
    if (libc := _glibc()) is not None:
        libc.mallopt(_M_ARENA_MAX, _ARENAS)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") else None  # musl has no such call

"""glibc's allocator, told to be frugal: it keeps what is freed, and an arena for every thread, unless asked."""

import ctypes
import gc

_M_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> None:
    """Let all threads share two arenas; gRPC alone starts ten threads, each worth one. Call it before there are any."""
    if (libc := _glibc()) is not None:
        libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Return what a start has used and freed to the kernel."""
    gc.collect()
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") else None  # musl has neither function

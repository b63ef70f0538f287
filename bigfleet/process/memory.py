"""Gives freed memory back to the operating system: C's allocator keeps what one large message took, for ever."""

import ctypes
import gc


def give_back() -> None:
    """After something large has gone. Takes milliseconds; nothing where the C library has no such call."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)

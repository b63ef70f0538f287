"""Children that the kernel kills when their parent ends: armed after a fork, or by a command that becomes the real one.

The signal fires when the parent *thread* ends, so spawn such children from the main thread.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Bind this process's life to its parent's; for the `preexec_fn` of a parent without threads."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the signal was armed
        os._exit(1)


def dying_with_us(argv: Sequence[str]) -> list[str]:
    """A command that runs `argv`, bound to our life; for parents with threads.

    A forked copy of a process with gRPC threads is no place to run Python in, so a fresh interpreter runs this file.
    """
    return [sys.executable, "-IS", __file__, str(os.getpid()), *argv]


def prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])

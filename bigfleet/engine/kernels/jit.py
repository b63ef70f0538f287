"""How a kernel is compiled: ahead of time by `make`, never while a shard runs (ADR-15)."""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from bigfleet.engine.kernels.home import directory

Function = TypeVar("Function", bound=Callable[..., Any])

# cached: use what was built, else plain Python; plain: never use it; build: compile and store.
MODE_VARIABLE = "BIGFLEET_KERNELS"
_MARKER = "complete"


def _mode() -> str:
    mode = os.environ.get(MODE_VARIABLE) or "cached"
    return "plain" if mode == "cached" and not (directory() / _MARKER).exists() else mode


def finish() -> None:
    """Everything is built: from now on it may be used."""
    (directory() / _MARKER).touch()


_active = _mode()


def go_plain() -> None:
    """Give the cache up for this process."""
    global _active
    _active = "plain"


def compiled() -> bool:
    """Whether the kernels of this process are machine code."""
    return _active != "plain"


def helper(function: Function) -> Function:
    """A function that kernels call; it becomes part of them."""
    if not compiled():
        return function
    from numba import njit

    return cast(Function, njit(function))


def kernel(signature: str) -> Callable[[Function], Function]:
    """A function that the engine calls, with the types of its arguments."""

    def decorate(function: Function) -> Function:
        if not compiled():
            return function
        from bigfleet.engine.kernels import stored

        return cast(Function, stored.machine_code(function, signature, build=_active == "build"))

    return decorate

"""How a kernel is compiled: ahead of time by `make`, never while a shard runs (ADR-15)."""

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar, cast

from bigfleet.userdirs import kernels_home

Function = TypeVar("Function", bound=Callable[..., Any])

# cached: use what was built, else plain Python; plain: never use it; build: compile and store.
MODE_VARIABLE = "BIGFLEET_KERNELS"
_SOURCES = Path(__file__).parent
_MARKER = "complete"


class NotBuilt(RuntimeError):
    """A kernel is not in the cache, and nobody compiles while a shard runs."""


def directory() -> Path:
    """The home of the kernels of this source, this CPU, this Python and this numba."""
    return kernels_home() / _key()


def _key() -> str:
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    for part in (_numba_version(), sys.version, platform.machine(), _cpu()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _numba_version() -> str:
    try:
        return version("numba")
    except PackageNotFoundError:
        return ""


def _cpu() -> str:
    """What the compiler tunes for: the model and its features."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "CPU part", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


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

"""Where compiled kernels are kept: a directory for each version of their source, CPU, Python and numba."""

import hashlib
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bigfleet.errors import BigFleetError
from bigfleet.process.userdirs import kernels_home

_SOURCES = Path(__file__).parent


class NotBuilt(BigFleetError, RuntimeError):
    """A kernel is not in the cache, and a shard does not compile while it runs."""


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

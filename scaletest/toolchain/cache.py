"""The user's cache of built tools: every artefact appears whole or not at all, made by one process at a time."""

import asyncio
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from scaletest.errors import ToolchainError

_PARTIAL = ".partial-"
_LOCK = ".lock"
# flock can't be awaited, and a thread that blocks in it can't be cancelled.
_LOCK_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Slot:
    """A directory for one artefact, a file or a tree."""

    directory: Path
    artefact: str

    @property
    def path(self) -> Path:
        """Where the artefact is once it is whole."""
        return self.directory / self.artefact

    @property
    def log(self) -> Path:
        """The log of the last attempt, kept only if it failed."""
        return self.directory / "failed.log"

    @property
    def filled(self) -> bool:
        """Whether the artefact is there."""
        return os.access(self.path, os.X_OK)

    @asynccontextmanager
    async def claim(self, on_wait: Callable[[float], None]) -> AsyncIterator[Path]:
        """Hold the slot alone, with a scratch directory that is gone afterwards; `on_wait` hears the seconds waited."""
        self.directory.mkdir(parents=True, exist_ok=True)
        clock = asyncio.get_running_loop().time
        started = clock()
        with (self.directory / _LOCK).open("wb") as lock:
            while not _try_lock(lock):
                on_wait(clock() - started)
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            _remove_leftovers(self.directory)
            scratch = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=self.directory))
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def fill(self, finished: Path) -> None:
        """Move a finished artefact into place; a crash leaves either none or all of it."""
        if finished.is_dir():
            os.sync()
        else:
            _sync(finished)
        finished.replace(self.path)
        _sync(self.directory)
        self.log.unlink(missing_ok=True)


@dataclass(frozen=True)
class Cache:
    """`bigfleet-scaletest` in the user's cache directory."""

    root: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> Self:
        """The cache under $XDG_CACHE_HOME or ~/.cache, made if need be and cleared of what killed builds left."""
        hint = "Set XDG_CACHE_HOME to a directory that you can write to (a full build keeps about 600 MB there)."
        try:
            configured = Path(environ.get("XDG_CACHE_HOME", ""))
            home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
            root = (configured if configured.is_absolute() else home / ".cache") / "bigfleet-scaletest"
            root.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError) as error:
            raise ToolchainError(f"no place for the cache of built tools: {error}", hint) from error
        if not os.access(root, os.W_OK | os.X_OK):
            raise ToolchainError(f"the cache of built tools, {root}, is not writable", hint)
        cache = cls(root)
        cache._sweep()
        return cache

    def tool(self, key: str, name: str) -> Slot:
        """Where a built tool lives."""
        return Slot(self.root / "tools" / key, name)

    def go(self, version: str) -> Slot:
        """Where a downloaded Go lives."""
        return Slot(self.root / f"go-{version}", "sdk")

    def bin_dir(self, binaries: Mapping[str, Path]) -> Path:
        """One directory of links to all `binaries`, for a PATH; named after its content, so it never changes."""
        content = "\0".join(f"{name}={path}" for name, path in sorted(binaries.items()))
        directory = self.root / "bin" / hashlib.sha256(content.encode()).hexdigest()[:16]
        directory.mkdir(parents=True, exist_ok=True)
        for name, path in binaries.items():
            with suppress(FileExistsError):
                (directory / name).symlink_to(path)
        return directory

    def _sweep(self) -> None:
        abandoned = {
            partial.parent for pattern in ("tools/*", "go-*") for partial in self.root.glob(f"{pattern}/{_PARTIAL}*")
        }
        for directory in abandoned:
            with (directory / _LOCK).open("wb") as lock:
                if _try_lock(lock):
                    _remove_leftovers(directory)


def _try_lock(lock: BinaryIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_leftovers(directory: Path) -> None:
    for partial in directory.glob(f"{_PARTIAL}*"):
        shutil.rmtree(partial, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

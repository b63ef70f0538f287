"""The user's cache of built tools: every artefact appears whole or not at all, made by one process at a time."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scaletest.errors import ToolchainError
from scaletest.toolchain.locks import Lock, OnWait, described

_PARTIAL = ".partial-"
_BUILD_LOCK = ".lock"
_USE_LOCK = ".in-use"


@dataclass(frozen=True)
class CacheSlot:
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
    async def claim(self, on_wait: OnWait) -> AsyncIterator[Path]:
        """Hold the slot alone, with a scratch directory that is gone afterwards."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with Lock(self.directory / _BUILD_LOCK) as lock:
            await lock.take(on_wait)
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
    """`bigfleet-scaletest` in the user's cache directory. Runs and builds share one lock; cleaning needs it alone.

    One lock for the whole cache is the simplest rule that never takes a binary from under a run: of this clone or
    another, of today's pins or older ones.
    """

    root: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> Self:
        """The cache under $XDG_CACHE_HOME or ~/.cache, made if need be."""
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
        return cls(root)

    async def share(self, on_wait: OnWait) -> Lock:
        """A share in the cache: nothing is cleaned away until it is closed. Removes what killed builds left."""
        lock = Lock(self.root / _USE_LOCK)
        await lock.take(on_wait, shared=True)
        self._sweep()
        return lock

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the cache to ourselves, or raise ToolchainError with the processes that use it."""
        with Lock(self.root / _USE_LOCK) as lock:
            if not lock.try_take():
                raise ToolchainError(
                    f"the tools in {self.root} are in use by {described(lock.holders())}",
                    "Nothing was removed. Try again when that run or build has ended.",
                )
            self._sweep()
            yield

    def tool(self, key: str, name: str) -> CacheSlot:
        """Where a built tool lives."""
        return CacheSlot(self.root / "tools" / key, name)

    def go(self, version: str) -> CacheSlot:
        """Where a downloaded Go lives."""
        return CacheSlot(self.root / f"go-{version}", "sdk")

    def tool_directories(self) -> list[Path]:
        """The places of built tools, of any pin."""
        return sorted(self.root.glob("tools/*"))

    def go_directories(self) -> list[Path]:
        """The places of downloaded Gos."""
        return sorted(self.root.glob("go-*"))

    def bin_dirs(self) -> list[Path]:
        """Every directory of links."""
        return sorted(self.root.glob("bin/*"))

    def entries(self) -> list[Path]:
        """All there is."""
        return sorted(path for path in self.root.iterdir() if path.name != _USE_LOCK)

    def bin_dir(self, binaries: Mapping[str, Path]) -> Path:
        """One directory of links to all `binaries`, for a PATH; named after its content, so it never changes."""
        content = "\0".join(f"{name}={path}" for name, path in sorted(binaries.items()))
        directory = self.root / "bin" / hashlib.sha256(content.encode()).hexdigest()[:16]
        directory.mkdir(parents=True, exist_ok=True)
        for name, path in binaries.items():
            with suppress(FileExistsError):
                (directory / name).symlink_to(path)
        return directory

    def remove(self, path: Path) -> None:
        """Take an entry away at once, then its content: a killed removal leaves nothing that looks whole."""
        grave = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=self.root))
        path.rename(grave / path.name)
        _remove_tree(grave)

    def _sweep(self) -> None:
        _remove_leftovers(self.root)  # of killed removals, which need no lock: they had the cache alone
        abandoned = {
            partial.parent for pattern in ("tools/*", "go-*") for partial in self.root.glob(f"{pattern}/{_PARTIAL}*")
        }
        for directory in abandoned:
            with Lock(directory / _BUILD_LOCK) as lock:
                if lock.try_take():
                    _remove_leftovers(directory)


def _remove_leftovers(directory: Path) -> None:
    for partial in directory.glob(f"{_PARTIAL}*"):
        _remove_tree(partial)


def _remove_tree(directory: Path) -> None:
    # Go's module cache is read-only, directories included.
    for parent, _, _ in os.walk(directory):
        with suppress(OSError):
            Path(parent).chmod(0o700)
    shutil.rmtree(directory, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Finding binaries that need no build: in $SCALETEST_TOOLS, on PATH, in the cache; only the pinned version will do."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from scaletest.errors import UsageError
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.helm import PyPIHelm
from scaletest.toolchain.process import output_of
from scaletest.toolchain.tools import GoTool
from scaletest.toolchain.versions import release_in

TOOLS_DIRECTORY = "SCALETEST_TOOLS"


class Source(StrEnum):
    """Where a binary comes from, as tables show it."""

    DIRECTORY = TOOLS_DIRECTORY
    PATH = "PATH"
    BUILT = "built"
    PYPI = "PyPI"


@dataclass(frozen=True)
class Binary:
    """An executable of the pinned version."""

    name: str
    version: str
    source: Source
    path: Path


@dataclass(frozen=True)
class NotUsed:
    """An executable of the right name and the wrong version."""

    name: str
    path: Path
    source: Source
    version: str | None
    """What it reports about itself; None if that is no version."""
    needed: str
    """As people read it: `1.34.4`, or `1.26.0 or newer`."""

    def __str__(self) -> str:
        version = self.version or "of no known version"
        return f"{self.source} has {self.name} {version} at {self.path}; {self.needed} is needed"


@dataclass(frozen=True)
class FoundTool:
    """What was found for one tool."""

    binary: Binary | None
    """None if it has to be built."""
    not_used: tuple[NotUsed, ...] = ()


class Executable(Protocol):
    """A program with a pinned version that it can be asked for."""

    @property
    def name(self) -> str: ...
    @property
    def release(self) -> str: ...
    @property
    def version_args(self) -> tuple[str, ...]: ...


async def find(tool: GoTool | PyPIHelm, cache: Cache, environ: Mapping[str, str]) -> FoundTool:
    """The first binary of the pinned version, in an order that does not depend on what was built before."""
    own = _own(tool, cache)
    not_used = list[NotUsed]()
    for source, path in [*_in_tools_directory(tool.name, environ), *_on_path(tool.name, environ, cache, own)]:
        version = await reported_version(tool, path, environ)
        if version == tool.release:
            return FoundTool(Binary(tool.name, version, source, path), tuple(not_used))
        not_used.append(NotUsed(tool.name, path, source, version, tool.release))
    return FoundTool(own, tuple(not_used))


async def reported_version(tool: Executable, path: Path, environ: Mapping[str, str]) -> str | None:
    """The version that the binary at `path` reports about itself."""
    return release_in(await output_of([path, *tool.version_args], environ=environ) or "")


def tools_directory(environ: Mapping[str, str]) -> Path | None:
    """The user's own directory of binaries."""
    configured = environ.get(TOOLS_DIRECTORY)
    if not configured:
        return None
    if not Path(configured).is_dir():
        raise UsageError(
            f"{TOOLS_DIRECTORY} is {configured}, which is not a directory",
            f"Name a directory of binaries, or unset {TOOLS_DIRECTORY} to have them built.",
        )
    return Path(configured).resolve()


def executables_on_path(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Every executable of that name, each once, in the order of PATH."""
    seen = set[Path]()
    for entry in environ.get("PATH", "").split(os.pathsep):
        candidate = Path(entry) / name
        if candidate.is_absolute() and _is_executable(candidate) and (target := candidate.resolve()) not in seen:
            seen.add(target)
            yield candidate


def _own(tool: GoTool | PyPIHelm, cache: Cache) -> Binary | None:
    if isinstance(tool, PyPIHelm):
        return Binary(tool.name, tool.release, Source.PYPI, tool.executable)
    slot = cache.tool(tool.key, tool.name)
    return Binary(tool.name, tool.release, Source.BUILT, slot.path) if slot.filled else None


def _in_tools_directory(name: str, environ: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    directory = tools_directory(environ)
    if directory and _is_executable(directory / name):
        yield Source.DIRECTORY, directory / name


def _on_path(name: str, environ: Mapping[str, str], cache: Cache, own: Binary | None) -> Iterator[tuple[Source, Path]]:
    """What others installed: our own links and .venv/bin may be on PATH as well."""
    for candidate in executables_on_path(name, environ):
        target = candidate.resolve()
        if not target.is_relative_to(cache.root.resolve()) and (own is None or target != own.path.resolve()):
            yield Source.PATH, candidate


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)

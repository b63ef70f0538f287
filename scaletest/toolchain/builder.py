"""Building one tool with `go build` into its slot of the cache."""

import re
from pathlib import Path

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache, Slot
from scaletest.toolchain.golang import Go
from scaletest.toolchain.logs import current_download, tail
from scaletest.toolchain.process import output_of, run_logged
from scaletest.toolchain.progress import Phase, Progress, Step, Update
from scaletest.toolchain.tools import GoTool
from scaletest.toolchain.versions import release_in

_ADVICE = {
    r"no space left on device": (
        "The disk is full: a build of all tools needs about 7 GB, nearly all of it in Go's own caches."
    ),
    r"signal: killed|cannot allocate memory": (
        "The build ran out of memory: it needs about 3 GB. Close something, then try again."
    ),
    r"checksum mismatch|SECURITY ERROR": (
        "A downloaded module is not the pinned one: do not use it, and check who answers at GOPROXY."
    ),
    r"missing go\.sum entry|updates to go\.mod needed": (
        "go.mod and go.sum disagree: run `go mod tidy` in the tool's module directory."
    ),
    r"dial tcp|no such host|timeout|TLS|connection re(set|fused)|proxyconnect|unexpected EOF|module lookup disabled": (
        "Go could not fetch a module: check the network, or set GOPROXY to a proxy that you can reach. Then try again."
    ),
}


async def build(tool: GoTool, go: Go, cache: Cache, step: Step, progress: Progress) -> Path:
    """Build `tool` unless another process does so meanwhile; returns the binary's path."""
    slot = cache.tool(tool.key, tool.name)
    async with slot.claim(lambda seconds: progress(Update(step, Phase.WAITING, seconds))) as scratch:
        if slot.filled:
            progress(Update(step, Phase.FOUND))
            return slot.path
        progress(Update(step, Phase.STARTED))
        binary, log, work = scratch / tool.name, scratch / "build.log", scratch / "work"
        work.mkdir()
        ended = await run_logged(
            [go.binary, "build", *tool.module.build_flags, "-o", binary, tool.package],
            cwd=tool.module.directory,
            # Go's work directory lies in the scratch directory so that a killed build leaves nothing elsewhere.
            environ={**go.environ, "GOTMPDIR": str(work)},
            log=log,
            on_beat=lambda seconds: progress(Update(step, Phase.WORKING, seconds, current_download(log))),
        )
        if ended.code != 0:
            raise _failure(tool, slot, log, ended.code)
        reported = release_in(await output_of([binary, *tool.version_args], environ=go.environ) or "")
        if reported != tool.release:
            raise ToolchainError(
                f"the {tool.name} just built reports version {reported}, but {tool.release} is pinned",
                f"The version stamps of {tool.name} no longer fit: see scaletest/toolchain/tools.py.",
            )
        slot.fill(binary)
    progress(Update(step, Phase.DONE, ended.seconds, f"{slot.path.stat().st_size / 1e6:.0f} MB"))
    return slot.path


def _failure(tool: GoTool, slot: Slot, log: Path, code: int) -> ToolchainError:
    end = tail(log)
    log.replace(slot.log)
    return ToolchainError(
        f"{tool.name} {tool.release} did not build: go build exited with {code}\n\n{end}\n\nWhole log: {slot.log}",
        f"{_advice(end)} Tools that were built are kept. "
        f"A {tool.name} {tool.release} on PATH or in the directory $SCALETEST_TOOLS is used instead of a build.",
    )


def _advice(log_tail: str) -> str:
    known = (advice for pattern, advice in _ADVICE.items() if re.search(pattern, log_tail))
    return next(known, "The lines above say why; mend it and try again.")

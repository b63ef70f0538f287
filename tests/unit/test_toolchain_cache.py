"""The cache holds whole artefacts only, and one process at a time makes each."""

import asyncio
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache, Slot


def ignore(_: float) -> None:
    pass


def partials(root: Path) -> list[Path]:
    return [path for path in root.rglob(".partial-*") if path.is_dir()]


def make_executable(path: Path) -> Path:
    path.write_text("whole")
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache.of_user({"XDG_CACHE_HOME": str(tmp_path)})


@pytest.fixture
def slot(cache: Cache) -> Slot:
    return cache.tool("greeter-1.2.3-abc", "greeter")


def test_the_cache_lies_where_the_user_keeps_caches(tmp_path: Path) -> None:
    assert Cache.of_user({"XDG_CACHE_HOME": str(tmp_path / "x")}).root == tmp_path / "x" / "bigfleet-scaletest"
    assert Cache.of_user({"HOME": str(tmp_path)}).root == tmp_path / ".cache" / "bigfleet-scaletest"
    relative = {"XDG_CACHE_HOME": "relative", "HOME": str(tmp_path)}
    assert Cache.of_user(relative).root == tmp_path / ".cache" / "bigfleet-scaletest"


def test_a_cache_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolchainError, match="no place for the cache") as raised:
        Cache.of_user({"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert "XDG_CACHE_HOME" in raised.value.hint


async def test_an_artefact_appears_when_it_is_finished(slot: Slot) -> None:
    async with slot.claim(ignore) as scratch:
        finished = make_executable(scratch / "greeter")
        assert not slot.filled
        slot.fill(finished)
    assert slot.filled
    assert slot.path.read_text() == "whole"
    assert not partials(slot.directory)


async def test_an_interrupted_claim_leaves_nothing_half_made(slot: Slot) -> None:
    claimed = asyncio.Event()

    async def work() -> None:
        async with slot.claim(ignore) as scratch:
            make_executable(scratch / "greeter")
            claimed.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await claimed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not slot.filled
    assert not partials(slot.directory)


async def test_a_slot_has_one_holder_and_the_next_one_hears_that_it_waits(slot: Slot) -> None:
    holders, waited, heard = [], asyncio.Event(), []

    async def second() -> None:
        def on_wait(seconds: float) -> None:
            heard.append(seconds)
            waited.set()

        async with slot.claim(on_wait):
            holders.append("second")

    async with slot.claim(ignore):
        task = asyncio.create_task(second())
        await waited.wait()
        holders.append("first")
    await task
    assert holders == ["first", "second"]
    assert heard[0] < 1


def test_what_a_killed_build_left_is_removed_at_the_next_start(cache: Cache) -> None:
    left = [cache.root / "tools" / "old-key" / ".partial-1" / "work", cache.root / "go-1.0.0" / ".partial-2"]
    for directory in left:
        directory.mkdir(parents=True)
    Cache.of_user({"XDG_CACHE_HOME": str(cache.root.parent)})
    assert not partials(cache.root)


async def test_a_running_build_is_not_swept_away(cache: Cache, slot: Slot) -> None:
    async with slot.claim(ignore) as scratch:
        Cache.of_user({"XDG_CACHE_HOME": str(cache.root.parent)})
        assert scratch.is_dir()


def test_links_of_all_binaries_share_one_directory_named_after_its_content(cache: Cache, tmp_path: Path) -> None:
    one, two = make_executable(tmp_path / "one"), make_executable(tmp_path / "two")
    both = cache.bin_dir({"one": one, "two": two})
    assert {link.name: link.resolve() for link in both.iterdir()} == {"one": one, "two": two}
    assert cache.bin_dir({"two": two, "one": one}) == both
    assert cache.bin_dir({"one": one}) != both

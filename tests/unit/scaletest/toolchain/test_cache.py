"""The cache holds whole artefacts only, and one process at a time makes each."""

import asyncio
import os
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError
from scaletest.toolchain.cache import Cache, CacheSlot
from scaletest.toolchain.locks import Holders


def ignore(_: float, __: Holders) -> None:
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
def slot(cache: Cache) -> CacheSlot:
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


async def test_an_artefact_appears_when_it_is_finished(slot: CacheSlot) -> None:
    async with slot.claim(ignore) as scratch:
        finished = make_executable(scratch / "greeter")
        assert not slot.filled
        slot.fill(finished)
    assert slot.filled
    assert slot.path.read_text() == "whole"
    assert not partials(slot.directory)


async def test_an_interrupted_claim_leaves_nothing_half_made(slot: CacheSlot) -> None:
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


async def test_a_slot_has_one_holder_and_the_next_one_hears_whom_it_waits_for(slot: CacheSlot) -> None:
    order, waited, heard = list[str](), asyncio.Event(), list[Holders]()

    async def second() -> None:
        def on_wait(_: float, holders: Holders) -> None:
            heard.append(holders)
            waited.set()

        async with slot.claim(on_wait):
            order.append("second")

    async with slot.claim(ignore):
        task = asyncio.create_task(second())
        await waited.wait()
        order.append("first")
    await task
    assert order == ["first", "second"]
    assert heard[0] == (os.getpid(),)


async def test_what_a_killed_build_left_is_removed_by_the_next_one_who_looks(cache: Cache) -> None:
    left = [
        cache.root / "tools" / "old-key" / ".partial-1" / "work",
        cache.root / "go-1.0.0" / ".partial-2",
        cache.root / ".partial-3" / "half-removed",
    ]
    for directory in left:
        directory.mkdir(parents=True)
    with await cache.share(ignore):
        assert not partials(cache.root)


async def test_a_running_build_is_not_swept_away(cache: Cache, slot: CacheSlot) -> None:
    async with slot.claim(ignore) as scratch:
        with await cache.share(ignore):
            assert scratch.is_dir()


async def test_many_share_the_cache_and_who_wants_it_alone_hears_of_them(cache: Cache) -> None:
    first, second = await cache.share(ignore), await cache.share(ignore)
    for share in (first, second):
        with pytest.raises(ToolchainError, match=f"in use by process {os.getpid()}$"), cache.alone():
            pass
        share.close()
    with cache.alone():
        pass


async def test_who_wants_a_share_waits_until_the_cleaning_is_over(cache: Cache) -> None:
    waited = asyncio.Event()
    with cache.alone():
        task = asyncio.create_task(cache.share(lambda *_: waited.set()))
        await waited.wait()
        assert not task.done()
    (await task).close()


async def test_a_share_ends_with_its_object(cache: Cache) -> None:
    share = await cache.share(ignore)
    del share
    with cache.alone():
        pass


def test_a_read_only_tree_such_as_gos_modules_can_be_removed(cache: Cache) -> None:
    deep = cache.root / "gopath" / "pkg" / "mod"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    deep.chmod(0o555)
    cache.remove(cache.root / "gopath")
    assert cache.entries() == []


def test_links_of_all_binaries_share_one_directory_named_after_its_content(cache: Cache, tmp_path: Path) -> None:
    one, two = make_executable(tmp_path / "one"), make_executable(tmp_path / "two")
    both = cache.bin_dir({"one": one, "two": two})
    assert {link.name: link.resolve() for link in both.iterdir()} == {"one": one, "two": two}
    assert cache.bin_dir({"two": two, "one": one}) == both
    assert cache.bin_dir({"one": one}) != both

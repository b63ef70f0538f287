"""The first of several things ends the wait; what the wait started itself is gone by then."""

import asyncio
from collections.abc import Callable

import pytest

from bigfleet.process.racing import first_of


async def result_of(value: str) -> str:
    return value


async def fail(error: Exception) -> str:
    raise error


class Endless:
    """Runs until it is cancelled, and says so; `last_act` is what it does then."""

    def __init__(self, last_act: Callable[[], None] = lambda: None) -> None:
        self.started = asyncio.Event()
        self.ended = False
        self._last_act = last_act

    async def run(self) -> str:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # an ending takes a turn of the loop or more
            self.ended = True
            self._last_act()
        raise AssertionError("the event is never set")


async def test_the_first_result_is_there_and_the_other_has_ended() -> None:
    endless = Endless()
    quick, slow = await first_of(result_of("here"), endless.run())
    assert quick is not None
    assert quick.result() == "here"
    assert slow is None
    assert endless.ended


async def test_futures_come_in_the_order_in_which_the_things_were_given() -> None:
    first, second, third = await first_of(Endless().run(), result_of("here"), Endless().run())
    assert (first, third) == (None, None)
    assert second is not None
    assert second.result() == "here"


async def test_two_that_are_done_at_once_are_both_told() -> None:
    one, other = await first_of(result_of("one"), result_of("other"))
    assert one is not None
    assert other is not None
    assert (one.result(), other.result()) == ("one", "other")


async def test_a_failure_is_kept_for_who_asks_for_the_result() -> None:
    failed, _ = await first_of(fail(KeyError("mine")), Endless().run())
    assert failed is not None
    with pytest.raises(KeyError, match="mine"):
        failed.result()


async def test_what_the_others_raise_while_they_end_is_dropped() -> None:
    def complain() -> None:
        raise OSError("the connection is gone")

    endless = Endless(complain)
    quick, slow = await first_of(result_of("here"), endless.run())
    assert quick is not None
    assert slow is None
    assert endless.ended


async def test_a_task_of_the_callers_is_only_watched() -> None:
    endless = Endless()
    task = asyncio.create_task(endless.run())
    await first_of(result_of("here"), task)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_future_that_is_done_already_ends_the_wait() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("long ago")
    endless = Endless()
    assert await first_of(future, endless.run()) == (future, None)


async def test_when_the_time_is_up_none_is_done_and_ours_have_ended() -> None:
    endless = Endless()
    assert await first_of(endless.run(), asyncio.Event().wait(), seconds=0.01) == (None, None)
    assert endless.ended


async def test_a_cancelled_wait_ends_what_it_started_and_leaves_the_callers() -> None:
    ours, theirs = Endless(), Endless()
    task = asyncio.create_task(theirs.run())
    waiting = asyncio.create_task(first_of(ours.run(), task))
    await ours.started.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ours.ended
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_task_that_the_caller_cancels_is_done() -> None:
    task = asyncio.create_task(Endless().run())
    asyncio.get_running_loop().call_soon(task.cancel)
    cancelled, _ = await first_of(task, Endless().run())
    assert cancelled is task
    assert task.cancelled()

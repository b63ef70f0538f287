"""An event loop for tests in which no second takes a second."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Never waits: when nothing can run, its clock, which starts at zero, jumps to the next timer."""

    def __init__(self) -> None:
        self._selector_of_time = JumpingSelector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now


class JumpingSelector(selectors.DefaultSelector):
    """Takes every timeout as passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


def in_no_time(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, however many seconds it sleeps."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)

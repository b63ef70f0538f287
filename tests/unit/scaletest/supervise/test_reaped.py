"""A child that we reap ourselves: its exit code is told once, and no signal follows it."""

import signal

import pytest

from scaletest.supervise.reaped import Reaped

NEVER_A_PROCESS = 2**22 + 1  # above the kernel's largest process number


class Recorded(Reaped):
    """Notes the signals that would have been sent."""

    def __init__(self) -> None:
        super().__init__(NEVER_A_PROCESS)
        self.sent: list[int] = []

    def _kill(self, number: int) -> None:
        self.sent.append(number)


async def test_the_status_of_the_kernel_becomes_an_exit_code_or_a_signal() -> None:
    ended, killed = Reaped(NEVER_A_PROCESS), Reaped(NEVER_A_PROCESS)
    ended.exited(3 << 8)
    killed.exited(signal.SIGKILL)
    assert (await ended.wait(), await killed.wait()) == (3, -signal.SIGKILL)


async def test_a_process_that_was_reaped_is_not_signalled() -> None:
    process = Recorded()
    process.send_signal(signal.SIGTERM)
    assert process.running
    process.exited(0)
    process.send_signal(signal.SIGKILL)
    assert not process.running
    assert process.sent == [signal.SIGTERM]


async def test_a_process_that_is_gone_before_it_is_reaped_is_no_error() -> None:
    process = Reaped(NEVER_A_PROCESS)
    process.send_signal(signal.SIGTERM)
    assert process.running


async def test_the_first_exit_code_stays() -> None:
    process = Reaped(NEVER_A_PROCESS)
    process.exited(0)
    process.exited(1 << 8)
    assert await process.wait() == 0


def test_it_may_be_made_and_asked_before_there_is_an_event_loop() -> None:
    assert Reaped(NEVER_A_PROCESS).running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_any_signal_reaches_a_process_that_runs(number: signal.Signals) -> None:
    process = Recorded()
    process.send_signal(number)
    assert process.sent == [number]

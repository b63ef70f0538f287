"""A real run of one entry: its profile, on a copy of the sources that has the entry's mistakes."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.smoke.checkout import Checkout
from tests.smoke.mistakes.entry import Entry
from tests.smoke.mistakes.surroundings import begin_in_soak
from tests.smoke.runs import HANG_SECONDS, Diary, FinishedRun, LiveRun, run, shared_machine

_VOID = 6
# A host whose runner was killed takes itself away within this.
_TEARDOWN_SECONDS = 60.0


class MeddlingFailed(RuntimeError):
    """The run was not what the entry says, so its end says nothing."""


async def run_entry(entry: Entry, directory: Path) -> FinishedRun:
    """Run it to its end. Its results are in `directory`/results; nothing else of it is left, whatever happens."""
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "results"
    failed: list[Exception] = []

    async def meddle(live: LiveRun) -> None:
        try:
            if entry.begins_in_soak:
                await begin_in_soak(live)
            if entry.meddle:
                await entry.meddle(live)
        except Exception as error:
            failed.append(error)

    duration = () if entry.seconds is None else ("--duration", f"{entry.seconds}s")
    # Where the load is the subject, its limits are those of any run.
    substrate = shared_machine(directory, load_may_be_late=_VOID not in entry.exit_codes)
    flags = ("--profile", entry.profile, "--substrate", str(substrate), *duration, *entry.flags)
    checkout = Checkout(directory, entry.mistakes) if entry.mistakes else None
    try:
        # A ramp that takes its whole budget, and a soak of ten minutes, are no hang.
        hang_seconds = HANG_SECONDS + (entry.seconds or 0)
        ended = await run(results, *flags, meddle=meddle, checkout=checkout, hang_seconds=hang_seconds)
    finally:
        await _await_end(Diary(results))
        if checkout:
            checkout.remove()
    if failed:
        raise MeddlingFailed(f"{entry.name}: {failed[0]!r}") from failed[0]
    return ended


async def _await_end(diary: Diary) -> None:
    """Only a run that was cut off has processes left: they are its own, and go by themselves, or are ended here."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_TEARDOWN_SECONDS):
            while diary.processes():
                await asyncio.sleep(0.5)
    for pid in diary.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

"""The checks, one after the other, each with its verdict."""

import asyncio
import importlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.verdicts import CheckOutcome, Result, Silent, Unjudged, Verdict

# In the order in which they run: cheap looks first.
AREAS = (
    "fields",
    "listing",
    "errors",
    "lifecycle",
    "positions",
    "idempotency",
    "fencing",
    "concurrency",
    "metadata",
    "walk",
)

Work = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True)
class Check:
    """One rule of the contract, and the function that holds a provider to it."""

    name: str
    area: str
    rule: str
    """The docstring; numbers such as B705 are those of docs/reference/wire.md#behaviour-numbers."""
    work: Work


_REGISTERED: dict[str, list[Check]] = {}


def check(work: Work) -> Work:
    """Make a function a check. `full_lifecycle` is called FullLifecycle."""
    name = "".join(part.capitalize() for part in work.__name__.split("_"))
    area = work.__module__.rpartition(".")[2]
    rule = " ".join((inspect.getdoc(work) or "").split())
    _REGISTERED.setdefault(area, []).append(Check(name, area, rule, work))
    return work


def all_checks() -> list[Check]:
    for area in AREAS:
        importlib.import_module(f"bigfleet.provider.conformance.checks.{area}")
    return [entry for area in AREAS for entry in _REGISTERED[area]]


def chosen(only: Collection[str]) -> list[Check]:
    """The checks of these names or areas, or all; raises ValueError for a name that there is not."""
    checks = all_checks()
    known = {entry.name for entry in checks} | set(AREAS)
    if unknown := [name for name in only if name not in known]:
        raise ValueError(f"there is no check {unknown[0]!r}: --list shows them all")
    return [entry for entry in checks if not only or entry.name in only or entry.area in only]


async def judge(
    bench: Bench, checks: Sequence[Check], *, check_seconds: float, deadline_seconds: float
) -> AsyncIterator[Result]:
    """Run the checks; a check that outlives its time is not judged, nor is one that comes after the deadline.

    Raises Silent after the check in which the provider went away.
    """
    end = time.monotonic() + deadline_seconds
    for entry in checks:
        bench.client.recall()
        started = time.monotonic()
        outcome, reason = CheckOutcome.PASSED, ""
        gone: Silent | None = None
        try:
            if started >= end:
                raise Unjudged(f"the suite's {deadline_seconds:g} s were over")
            async with asyncio.timeout(min(check_seconds, end - started)) as limit:
                await entry.work(bench)
        except Verdict as verdict:
            outcome, reason = verdict.outcome, str(verdict)
            gone = verdict if isinstance(verdict, Silent) else None
        except TimeoutError:
            if not limit.expired():
                raise
            outcome, reason = CheckOutcome.UNJUDGED, f"not done after {time.monotonic() - started:.0f} s"
        except Exception as error:
            # Not the provider's fault, and no reason to keep the other verdicts back.
            outcome, reason = CheckOutcome.UNJUDGED, f"the check itself broke: {type(error).__name__}: {error}"
        seconds = time.monotonic() - started
        yield Result(entry.name, entry.area, entry.rule, outcome, seconds, reason, bench.client.recall())
        if gone:
            raise gone


def not_made(checks: Sequence[Check], reason: str) -> list[Result]:
    """The verdicts on checks that were not begun."""
    return [
        Result(entry.name, entry.area, entry.rule, CheckOutcome.UNJUDGED, 0.0, f"not made: {reason}")
        for entry in checks
    ]

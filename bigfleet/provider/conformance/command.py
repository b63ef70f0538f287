"""`bigfleet conformance`: points the suite at an address and says what came of it."""

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import grpc

from bigfleet.files import write_file
from bigfleet.provider.conformance import report as reports
from bigfleet.provider.conformance.bench import Bench, Limits
from bigfleet.provider.conformance.client import Client
from bigfleet.provider.conformance.joining import joining
from bigfleet.provider.conformance.suite import chosen, judge
from bigfleet.provider.conformance.verdicts import Outcome, Report, Result, Verdict
from bigfleet.security import channel
from bigfleet.security.choice import check_choice

_CONNECT_SECONDS = 5.0


class NotConformant(Exception):
    """At least one check failed."""

    exit_code = 1


class NotJudged(Exception):
    """The provider could not be reached, or some checks could not be judged."""

    exit_code = 5

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Interrupted(Exception):
    """A signal came before the last check."""

    exit_code = 130


@dataclass(frozen=True)
class ConformanceOptions:
    """Checks whether a provider keeps the contract. It moves free machines and puts them back as they were.

    Exit codes: 0 every check passed, 1 a check failed, 2 wrong use, 5 the provider is out of reach or a check could
    not be judged, 130 interrupted: machines are put back then too, unless a second signal comes.
    """

    target: str = ""
    """`host:port` of the provider."""
    only: tuple[str, ...] = ()
    """Names of checks, or of areas; all if none is given."""
    list: bool = False
    """Show the checks and their rules, and do nothing."""
    output: Literal["text", "json"] = field(default="text", metadata={"short": "-o"})
    """What to write on stdout."""
    junit: Path | None = None
    """File to write JUnit XML to."""
    tls_dir: Path | None = None
    """Directory of an identity `bigfleet://shard/NAME`."""
    plaintext: bool = False
    """No TLS: the provider must have been told the same."""
    shard_id: str = ""
    """NAME of that identity; with TLS it is needed, and only tokens of this shard are sent."""
    cluster: str = "conformance"
    """What machines are configured for; their nodes must become Ready there, if the provider waits for that."""
    phone_home_tls_dir: Path | None = None
    """Directory of an identity `bigfleet://cluster/CLUSTER`, for a provider that waits for nodes over PhoneHome."""
    limits: Limits = field(default_factory=Limits)
    check_seconds: float = 300.0
    """One check may take no longer."""
    deadline_seconds: float = 3600.0
    """The suite may take no longer."""

    def __post_init__(self) -> None:
        chosen(self.only)
        if self.list:
            return
        if not self.target:
            raise ValueError("--target is missing")
        if self.junit and (self.junit.is_dir() or not self.junit.parent.is_dir()):
            raise ValueError(f"--junit {self.junit}: there is no folder {self.junit.parent}, or it is one itself")
        check_choice(self.tls_dir, self.plaintext)
        if self.tls_dir and not self.shard_id:
            raise ValueError("--tls-dir needs --shard-id, the name of its identity")


async def run(options: ConformanceOptions) -> None:
    """Judge and report; raises NotConformant, NotJudged or Interrupted."""
    if options.list:
        sys.stdout.write(reports.menu(chosen(options.only)) + "\n")
        return
    try:
        report = await conformance(options)
    except asyncio.CancelledError:
        raise Interrupted("interrupted; machines may not be as they were") from None
    if options.output == "json":
        sys.stdout.write(reports.as_json(report).decode() + "\n")
    else:
        sys.stdout.write(f"\n{reports.closing(report)}\n")
    sys.stdout.flush()
    if options.junit:
        write_file(options.junit, reports.as_junit(report), mode=0o644)
    if (missing := len(chosen(options.only)) - len(report.results)) > 0:
        raise Interrupted(f"interrupted: {missing} checks were not made")
    if failed := report.count(Outcome.FAILED):
        raise NotConformant(f"{failed} of {len(report.results)} checks failed")
    if unjudged := report.count(Outcome.UNJUDGED):
        raise NotJudged(f"{unjudged} of {len(report.results)} checks could not be judged")


async def conformance(options: ConformanceOptions) -> Report:
    """Run the suite; in text, each check is shown when it ends."""
    results: list[Result] = []
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(channel(options.target, options.tls_dir, "provider"))
        await _reached(provider, options.target)
        nodes = provider
        if options.phone_home_tls_dir:
            nodes = channel(options.target, options.phone_home_tls_dir, "provider")
            await stack.enter_async_context(nodes)
        phone = await stack.enter_async_context(joining(nodes, options.cluster, options.limits.call_seconds))
        client = Client(provider, options.limits.call_seconds)
        bench = Bench(client, options.limits, options.cluster, phone, options.shard_id if options.tls_dir else "")
        try:
            await bench.survey()
        except Verdict as verdict:
            raise NotJudged(str(verdict)) from verdict
        checks = chosen(options.only)
        seconds = (options.check_seconds, options.deadline_seconds)
        try:
            async for result in judge(bench, checks, check_seconds=seconds[0], deadline_seconds=seconds[1]):
                results.append(result)
                if options.output == "text":
                    sys.stdout.write(reports.line(result) + "\n")
                    sys.stdout.flush()
        except asyncio.CancelledError:  # one signal ends the checks; what they moved goes back all the same
            if task := asyncio.current_task():
                task.uncancel()
            sys.stderr.write("interrupted: putting the machines back; a second time leaves them as they are\n")
        leftovers = await bench.restore()
    return Report(options.target, results, bench.used, leftovers)


async def _reached(provider: grpc.aio.Channel, target: str) -> None:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await provider.channel_ready()
    except TimeoutError:
        raise NotJudged(
            f"nothing answers at {target} after {_CONNECT_SECONDS:g} s",
            "is the provider running, and does it speak TLS as this command does?",
        ) from None

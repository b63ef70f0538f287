"""`bigfleet conformance`: points the suite at an address and says what came of it."""

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import grpc

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.process.commandline import lose_output
from bigfleet.process.files import write_file
from bigfleet.provider.conformance import report as reports
from bigfleet.provider.conformance.bench import Bench, Limits
from bigfleet.provider.conformance.client import Client
from bigfleet.provider.conformance.joining import joining
from bigfleet.provider.conformance.suite import chosen, judge, not_made
from bigfleet.provider.conformance.verdicts import CheckOutcome, Result, Silent, SuiteReport, Verdict
from bigfleet.rpc.reach import is_a_stranger, tls_hint, trouble_with
from bigfleet.security import channel
from bigfleet.security.choice import check_choice
from bigfleet.security.files import IdentityFiles
from bigfleet.security.identity import Identity, InvalidIdentity

_CONNECT_SECONDS = 5.0
_WHY_SECONDS = 1.0


class NotConformant(BigFleetError):
    """At least one check failed."""

    exit_code = ExitStatus.FAILED


class NotJudged(BigFleetError):
    """The provider could not be reached, or some checks could not be judged."""

    exit_code = ExitStatus.NOT_JUDGED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class SuiteInterrupted(BigFleetError):
    """A signal came before the last check."""

    exit_code = ExitStatus.INTERRUPTED


@dataclass(frozen=True)
class ConformanceOptions:
    """Checks whether a provider keeps the contract. It moves free machines and puts them back as they were.

    Exit codes: 0 every check passed, 1 a check failed, 2 wrong use, 5 the provider is out of reach, went away or a
    check could not be judged, 130 interrupted: machines are put back then too, unless a second signal comes.
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
        if self.tls_dir:
            self._check_identity(self.tls_dir)

    def _check_identity(self, tls_dir: Path) -> None:
        """Refuse a shard id that is not the certificate's: the provider would refuse its tokens and be blamed."""
        if not self.shard_id:
            raise ValueError("--tls-dir needs --shard-id, the name of its identity")
        try:
            shown = IdentityFiles.read(tls_dir).identity
        except (OSError, InvalidIdentity) as error:
            raise ValueError(f"--tls-dir {tls_dir}: {error}") from error
        if shown != Identity("shard", self.shard_id):
            raise ValueError(f"--tls-dir {tls_dir} is for {shown}, and --shard-id {self.shard_id} is another")


async def run(options: ConformanceOptions) -> None:
    """Judge and report; raises NotConformant, NotJudged or SuiteInterrupted."""
    if options.list:
        sys.stdout.write(reports.menu(chosen(options.only)) + "\n")
        return
    try:
        report = await conformance(options)
    except asyncio.CancelledError:
        raise SuiteInterrupted("interrupted; machines may not be as they were") from None
    if options.junit:
        write_file(options.junit, reports.as_junit(report), mode=0o644)
    shown = reports.as_json(report).decode() if options.output == "json" else f"\n{reports.closing(report)}"
    lost = _write(f"{shown}\n")
    if (missing := len(chosen(options.only)) - len(report.results)) > 0:
        raise SuiteInterrupted(f"interrupted: {missing} checks were not made")
    if failed := report.count(CheckOutcome.FAILED):
        cut_short = f"; the suite did not come to its end: {report.trouble}" if report.trouble else ""
        raise NotConformant(f"{failed} of {len(report.results)} checks failed{cut_short}")
    if unjudged := report.count(CheckOutcome.UNJUDGED):
        sentence = f"{unjudged} of {len(report.results)} checks could not be judged"
        raise NotJudged(f"{sentence}: {report.trouble}" if report.trouble else sentence, _hint(report))
    if lost:
        raise NotJudged(lost)


async def conformance(options: ConformanceOptions) -> SuiteReport:
    """Run the suite; in text, each check is shown when it ends. What it cannot come to is not judged."""
    checks = chosen(options.only)
    results: list[Result] = []
    trouble = ""
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(channel(options.target, options.tls_dir, "provider"))
        try:
            await _reached(provider, options.target)
        except Silent as gone:
            return SuiteReport(options.target, not_made(checks, str(gone)), [], [], str(gone))
        nodes = provider
        if options.phone_home_tls_dir:
            nodes = channel(options.target, options.phone_home_tls_dir, "provider")
            await stack.enter_async_context(nodes)
        phone = await stack.enter_async_context(joining(nodes, options.cluster, options.limits.call_seconds))
        client = Client(provider, options.limits.call_seconds)
        bench = Bench(client, options.limits, options.cluster, phone, options.shard_id if options.tls_dir else "")
        seconds = (options.check_seconds, options.deadline_seconds)
        try:
            await bench.survey()
            async for result in judge(bench, checks, check_seconds=seconds[0], deadline_seconds=seconds[1]):
                results.append(result)
                if options.output == "text" and (trouble := _write(reports.line(result) + "\n")):
                    break
        except Verdict as verdict:
            trouble = str(verdict)
            with suppress(Silent):  # one that was restarted takes its machines back
                await _reached(provider, options.target)
        except asyncio.CancelledError:  # one signal ends the checks; what they moved goes back all the same
            if task := asyncio.current_task():
                task.uncancel()
            sys.stderr.write("interrupted: putting the machines back; a second time leaves them as they are\n")
        leftovers = await bench.restore()
    if trouble:
        results += not_made(checks[len(results) :], trouble)
    return SuiteReport(options.target, results, bench.used, leftovers, trouble)


def _hint(report: SuiteReport) -> str:
    if is_a_stranger(report.trouble):
        return "a server answers there, but it is not a provider: is it the provider's port?"
    return tls_hint(report.trouble) if report.count(CheckOutcome.UNJUDGED) == len(report.results) else ""


async def _reached(provider: grpc.aio.Channel, target: str) -> None:
    """Raises Silent."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await provider.channel_ready()
    except TimeoutError:
        why = await trouble_with(provider, _WHY_SECONDS) or "it came too late"
        raise Silent(f"nothing answers at {target} after {_CONNECT_SECONDS:g} s: {why}") from None


def _write(text: str) -> str:
    """Why stdout does not take it, if it does not; then it takes nothing more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        lose_output()
        return f"the output cannot be written: {error.strerror}"
    return ""

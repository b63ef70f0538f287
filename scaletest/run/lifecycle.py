"""A run, from the first step to the last: install → settle → soak → evidence → verdict → teardown.

Whatever happens on the way (a failure, the cap, Ctrl-C), the evidence is kept first and teardown follows, once. With
`keep` the fleet stays up instead.
"""

import asyncio
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from scaletest.errors import (
    CapReached,
    InstallError,
    KubeApiError,
    LedgerFailed,
    Leftovers,
    PrometheusUnreachable,
    ScaletestError,
    SnapshotFailed,
)
from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.hops import HopReading, diagnose, hops_of, read_hops
from scaletest.judge.judging import Soaked, judge_soak
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.readings.bottlenecks import attribute
from scaletest.judge.readings.readings import read_informational
from scaletest.judge.selfcheck.strain import ScrapeIntervals
from scaletest.judge.summary import Summary
from scaletest.model.counting import counted, noun
from scaletest.model.documents.durations import format_duration
from scaletest.model.json_types import Json
from scaletest.model.names import PROMETHEUS_POD, PROMETHEUS_PORT, PROVIDER_POD, PROVIDER_PORT, SNAPSHOTS_PORT
from scaletest.model.plan import EVIDENCE_SECONDS, Plan
from scaletest.run.fleet.installed import InstalledFleet, InstallOptions
from scaletest.run.inputs import inputs_document
from scaletest.run.interrupts import Interrupts
from scaletest.run.journal import DiaryLine, RunJournal
from scaletest.run.steps.evidence import (
    LEDGER,
    SNAPSHOT,
    keep_ledger,
    keep_logs,
    keep_snapshot,
    read_events,
    read_offences,
    write_json,
    write_values,
)
from scaletest.run.steps.guard import Caps
from scaletest.run.steps.settle import Settle
from scaletest.run.steps.soak import Soak
from scaletest.run.target.target import Target, while_it_stands

# Until Prometheus has stored a scrape that has ended.
_STORING_SECONDS = 1


class Pages(Protocol):
    """What a run shows to people and to CI systems. The run says when; how it looks is decided elsewhere (`report`)."""

    def values(self, plan: Plan, values: dict[str, Json]) -> dict[str, Json]:
        """The Helm values, with the dashboard of this plan in them."""
        ...

    def plan(self, plan: Plan, caps: Caps, run_id: str) -> Mapping[str, object]:
        """plan.json."""
        ...

    def where_to_look(self, namespace: str) -> str:
        """How to open the dashboard of an installed run."""
        ...

    def of_summary(self, plan: Plan, summary: Summary, events: list[DiaryLine]) -> dict[str, str]:
        """File name → text."""
        ...


@dataclass(frozen=True)
class RunOptions:
    """How to run a plan."""

    output: Path
    install: InstallOptions
    caps: Caps
    pages: Pages
    # Leave the fleet up at the end, however the run ends.
    keep: bool = False


class Run:
    """One run of one plan. `execute` once."""

    def __init__(self, plan: Plan, options: RunOptions, journal: RunJournal) -> None:
        self._plan = plan
        self._options = options
        self._journal = journal
        self._outcome = RunOutcome()
        self._facts = RunFacts(plan, options.install.run_id, options.install.context or "")
        self._hops = hops_of(plan.profile.load_profile.mode)
        values = options.pages.values(plan, plan.values(options.install.run_id))
        self._fleet = InstalledFleet(options.install, values, journal)
        self._prometheus: Prometheus | None = None
        # Where its snapshots are fetched from; known beforehand, because the host's API may not answer then.
        self._snapshots_url = ""
        self._ledger_address = ""
        # The handler of SIGINT and its like.
        ending = "keeping the fleet" if options.keep else "tearing down"
        self.interrupt = Interrupts(partial(journal.say, "stop"), f"keeping the evidence, then {ending}")

    async def execute(self) -> RunOutcome:
        self.interrupt.guard()
        soaked: Soaked | None = None
        try:
            cap = asyncio.timeout(self._options.caps.max_duration_seconds)
            try:
                async with cap:
                    soaked = await self._steps()
            except ScaletestError as error:
                self._fail(error)
            except asyncio.CancelledError:
                self.interrupt.absorb()
                self._outcome.add(ExitCode.INTERRUPTED, "interrupted")
            except Exception as error:  # not one of our own errors: the evidence and the teardown follow all the same
                if isinstance(error, TimeoutError) and cap.expired():
                    self._fail(self._cap_reached())
                else:
                    self._unexpected(error, ExitCode.UNMEASURED if self._prometheus else ExitCode.INSTALL_FAILED)
            self.interrupt.concluding = True
            await self._conclude(soaked)
        except asyncio.CancelledError:
            self.interrupt.absorb()
            await self._force_down()
        outcome = self._outcome
        self._journal.say("verdict", outcome.verdict, passed=outcome.passed, exitCode=outcome.exit_code)
        return outcome

    async def _steps(self) -> Soaked:
        fleet, output, facts = self._fleet, self._options.output, self._facts
        document = self._options.pages.plan(self._plan, self._options.caps, facts.run_id)
        write_json(output / "plan.json", {**document, "inputs": inputs_document(self._plan)})
        write_values(output / "rendered-values.yaml", fleet.values)

        with facts.timing("host"):
            target = await fleet.prepare_target()
            if self._options.keep:
                await target.outlive_us()
        return await while_it_stands(target, self._steps_on(target))

    async def _steps_on(self, target: Target) -> Soaked:
        plan, journal, facts = self._plan, self._journal, self._facts
        with facts.timing("install"):
            api = await self._fleet.install()
            if self._fleet.values.get("grafana", {}).get("enabled"):
                journal.say("install", self._options.pages.where_to_look(self._options.install.namespace))
            address = await target.address(api, PROMETHEUS_POD, PROMETHEUS_PORT)
            self._snapshots_url = f"https://{await target.address(api, PROMETHEUS_POD, SNAPSHOTS_PORT)}"
            self._ledger_address = await target.address(api, PROVIDER_POD, PROVIDER_PORT)
            self._prometheus = prometheus = Prometheus(
                f"https://{address}", target.private_dir, way_may_break=target.kind == "context"
            )

        with facts.timing("settle"):
            await api.set_phase("settle")
            await Settle(plan, api, prometheus, journal).wait()
            journal.say("settle", "steady: demand is covered by bound capacity and nothing moves")
        facts.ramp_seconds = facts.seconds["settle"]

        with facts.timing("soak"):
            soak = Soak(plan, api, prometheus, journal)
            facts.samples = soak.samples
            facts.soak_start = await soak.begin()
            return await soak.hold()

    async def _conclude(self, soaked: Soaked | None) -> None:
        """Evidence, verdict, teardown; none of them keeps the next one from happening."""
        try:
            async with asyncio.timeout(EVIDENCE_SECONDS):
                await self._keep_evidence(soaked)
        except TimeoutError:
            self._outcome.add(
                ExitCode.UNMEASURED, f"evidence was not complete after {format_duration(EVIDENCE_SECONDS)}"
            )
        except ScaletestError as error:
            self._fail(error)
        except Exception as error:  # whatever the evidence lacks, the teardown must follow
            self._unexpected(error, ExitCode.UNMEASURED)
        finally:
            self._write_summary()
        if self._options.keep and self._fleet.target and self._fleet.target.alive:
            await self._leave_up()
        else:
            await self._tear_down()
        if self.interrupt.count and ExitCode.INTERRUPTED not in dict(self._outcome.failures):
            self._outcome.add(ExitCode.INTERRUPTED, "interrupted while ending")
        self._write_summary()

    async def _keep_evidence(self, soaked: Soaked | None) -> None:
        facts, journal, target, api = self._facts, self._journal, self._fleet.target, self._fleet.api
        if not (api and target and target.alive):
            return
        with facts.timing("evidence"):
            if self._prometheus:
                journal.say("evidence", "reading gates and hops, keeping the Prometheus snapshot")
                facts.hops = await self._read_hops(self._prometheus)
                await self._ledger(target)
                if soaked:
                    await self._judge(self._prometheus, replace(soaked, offences=self._offences()))
                at = soaked.window.end if soaked else time.time()
                facts.informational = await read_informational(self._prometheus, self._plan.window_seconds, at)
                await self._snapshot(self._prometheus, target)
            if not self._outcome.passed:
                await keep_logs(api, self._options.output / "logs", journal)

    async def _judge(self, prometheus: Prometheus, soaked: Soaked) -> None:
        intervals = ScrapeIntervals.of(self._fleet.values)
        # A scrape carries the time at which it began. Gates that are read before the last one is stored would miss it,
        # and `check` would find other figures in the snapshot.
        await asyncio.sleep(max(0.0, soaked.window.end + intervals.timeout_seconds + _STORING_SECONDS - time.time()))
        judgement = await judge_soak(self._plan, prometheus, soaked, intervals)
        for record in judgement.gates:
            self._journal.say("gate", f"{record.title}: {record.verdict}, {record.reason}", **record.document())
        for check in judgement.checks:
            self._journal.say("selfcheck", f"{check.title}: {check.verdict}, {check.reason}", **check.document())
        self._facts.soaked = soaked
        self._facts.judgement = judgement
        failures = list(judgement.failures())
        for failure in failures:
            self._outcome.add(failure.exit_code, failure.sentence, certain=failure.certain)
        about_gates = [
            one.exit_code for one in failures if one.exit_code in (ExitCode.GATE_FAILED, ExitCode.UNMEASURED)
        ]
        if about_gates:
            broken = await diagnose(prometheus, self._hops) or await attribute(prometheus, gates_for(self._plan))
            if broken:
                self._outcome.add(min(about_gates), broken)

    async def _read_hops(self, prometheus: Prometheus) -> list[HopReading]:
        try:
            return await read_hops(prometheus, self._hops)
        except PrometheusUnreachable as error:
            self._journal.say("evidence", str(error))
            return []

    async def _snapshot(self, prometheus: Prometheus, target: Target) -> None:
        archive = self._options.output / SNAPSHOT
        try:
            totals = await keep_snapshot(prometheus, self._snapshots_url, target.private_dir, archive)
        except SnapshotFailed as error:
            self._outcome.add(ExitCode.UNMEASURED, str(error))
            self._journal.say("evidence", str(error))
        else:
            self._facts.snapshot = totals
            samples = f"{totals['samples']} {noun(totals['samples'], 'sample')}"
            self._journal.say("evidence", f"snapshot: {totals['series']} series, {samples}", **totals)

    async def _ledger(self, target: Target) -> None:
        try:
            totals = await keep_ledger(self._ledger_address, target.private_dir, self._options.output / LEDGER)
        except LedgerFailed as error:
            self._outcome.add(ExitCode.UNMEASURED, str(error))
            self._journal.say("evidence", str(error))
        else:
            self._facts.ledger = totals
            self._journal.say("evidence", f"ledger: {counted(totals['lines'], 'line')}", **totals)

    def _offences(self) -> dict[str, str]:
        """What the kept ledger names; a damaged one is a failure of its own, and names nothing."""
        return read_offences(self._options.output) if self._facts.ledger else {}

    async def _leave_up(self) -> None:
        try:
            await self._fleet.keep()
            self._journal.say("kept", "the fleet stays up")
        except ScaletestError as error:
            self._journal.say("kept", f"the fleet could not be left up: {error}")
            await self._tear_down()

    async def _tear_down(self) -> None:
        on_context = self._options.install.context is not None
        with self._facts.timing("teardown"):
            if self._fleet.target:
                parts = "the release and the namespace" if on_context else "the release, the namespace and the host"
                self._journal.say("teardown", f"removing {parts}")
            try:
                await self._fleet.remove()
                self._journal.say("teardown", "nothing is left behind")
            except Leftovers as error:
                self._fail(error)

    async def _force_down(self) -> None:
        self._outcome.add(ExitCode.INTERRUPTED, "interrupted twice")
        self._write_summary()
        await self._fleet.force_down()

    def _fail(self, error: ScaletestError) -> None:
        # What breaks away under an installed fleet is no failed install.
        broke = isinstance(error, InstallError | KubeApiError) and self._prometheus is not None
        self._outcome.add(ExitCode.UNMEASURED if broke else ExitCode(error.exit_code), error.message)
        self._journal.say("failed", error.message, hint=error.hint)

    def _cap_reached(self) -> CapReached:
        cap = format_duration(self._options.caps.max_duration_seconds)
        return CapReached(f"the run hit --max-duration {cap}", hint="raise the flag or shorten the profile")

    def _unexpected(self, error: Exception, exit_code: ExitCode) -> None:
        sentence = f"unexpected {type(error).__name__}: {error}".splitlines()[0]
        with suppress(OSError):
            (self._options.output / "traceback.txt").write_text("".join(traceback.format_exception(error)))
        self._outcome.add(exit_code, sentence)
        self._journal.say("failed", sentence, hint="read traceback.txt in the results")

    @property
    def summary(self) -> Summary:
        """summary.json, whether or not it could be written."""
        return summarise(self._facts, self._outcome)

    def _write_summary(self) -> None:
        """What cannot be written keeps nothing else from happening."""
        output = self._options.output
        if self._journal.problem and (ExitCode.UNMEASURED, self._journal.problem) not in self._outcome.failures:
            self._outcome.add(ExitCode.UNMEASURED, self._journal.problem)
        try:
            write_json(output / "summary.json", self.summary.document())
        except OSError as error:
            sentence = f"the summary could not be written: {error.strerror}"
            if (ExitCode.UNMEASURED, sentence) not in self._outcome.failures:
                self._outcome.add(ExitCode.UNMEASURED, sentence)
                self._journal.say(
                    "failed", sentence, hint="the screen shows the verdict; free some space for the next run"
                )
        else:
            self._write_pages()

    def _write_pages(self) -> None:
        """What is made from the summary, for CI systems and for people; without it the summary still stands."""
        output, summary = self._options.output, self.summary
        try:
            events = read_events(output / "events.jsonl")
            for name, text in self._options.pages.of_summary(self._plan, summary, events).items():
                (output / name).write_text(text)
        except Exception as error:  # a picture that cannot be drawn must not keep the teardown from following
            self._journal.say("evidence", f"the report could not be written: {error}")

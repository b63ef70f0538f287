"""A run, from the first step to the last: install → settle → soak → evidence → verdict → teardown.

Whatever happens on the way (a failure, the cap, Ctrl-C), the evidence is kept first and teardown follows, once.
"""

import asyncio
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from scaletest.errors import CapReached, Leftovers, ScaletestError
from scaletest.model.durations import format_duration
from scaletest.model.plan import EVIDENCE_SECONDS, INSTALL_SECONDS, TEARDOWN_SECONDS, Plan
from scaletest.report.plan import plan_document
from scaletest.run import outcome as codes
from scaletest.run.evidence import SNAPSHOT, SnapshotFailed, keep_logs, keep_snapshot, write_json, write_values
from scaletest.run.gates import GateRecord, gates_for, judge, reclaim_gate, restart_gate
from scaletest.run.ground import Ground, prepare_ground
from scaletest.run.helm import Helm
from scaletest.run.hops import HopReading, diagnose, read_hops
from scaletest.run.hostapi import HostApi
from scaletest.run.install import install_chart, prepare_stage
from scaletest.run.journal import Journal
from scaletest.run.measure import read_gate, read_informational
from scaletest.run.outcome import Outcome
from scaletest.run.prometheus import Prometheus, PrometheusUnreachable
from scaletest.run.settle import Settle
from scaletest.run.soak import Soak, SoakWindow
from scaletest.run.summary import RunFacts, summarise

RELEASE = "scaletest"
NAMESPACE = "bigfleet-scaletest"
# Signals closer together than this are one Ctrl-C.
_ONE_CTRL_C_SECONDS = 0.5


@dataclass(frozen=True)
class RunOptions:
    """How to run a plan."""

    run_id: str
    output: Path
    chart: Path
    bin_dir: Path
    helm: Path
    max_duration_seconds: float
    # Helm values that win over the rendered ones.
    overrides: dict[str, Any] = field(default_factory=dict)


class Run:
    """One run of one plan. `execute` once."""

    def __init__(self, plan: Plan, options: RunOptions, journal: Journal) -> None:
        self._plan = plan
        self._options = options
        self._journal = journal
        self._outcome = Outcome()
        self._facts = RunFacts(plan, options.run_id)
        self._ground: Ground | None = None
        self._api: HostApi | None = None
        self._helm: Helm | None = None
        self._prometheus: Prometheus | None = None
        self._soak: Soak | None = None
        self._task: asyncio.Task[Any] | None = None
        self._interrupts = 0
        self._interrupted_at = -_ONE_CTRL_C_SECONDS
        self._concluding = False

    def interrupt(self) -> None:
        """Ctrl-C: the first one ends the run in order (or lets it, when it ends already), the second one at once."""
        now = time.monotonic()
        if now - self._interrupted_at < _ONE_CTRL_C_SECONDS:
            return  # `timeout` and shells may signal a process and then its whole group
        self._interrupted_at = now
        self._interrupts += 1
        if self._interrupts == 1 and self._concluding:
            self._journal.say("stop", "interrupted: the run ends already (again to force)")
            self._outcome.add(codes.INTERRUPTED, "interrupted while ending")
            return
        if self._interrupts == 1:
            self._journal.say("stop", "interrupted: keeping the evidence, then tearing down (again to force)")
        elif self._interrupts == 2:
            self._journal.say("stop", "forced: tearing down at once")
        if self._interrupts <= 2 and self._task:
            self._task.cancel()

    async def execute(self) -> Outcome:
        self._task = asyncio.current_task()
        window: SoakWindow | None = None
        try:
            try:
                async with asyncio.timeout(self._options.max_duration_seconds):
                    window = await self._steps()
            except TimeoutError:
                cap = format_duration(self._options.max_duration_seconds)
                self._fail(
                    CapReached(f"the run hit --max-duration {cap}", hint="raise the flag or shorten the profile")
                )
            except ScaletestError as error:
                self._fail(error)
            except asyncio.CancelledError:
                self._absorb_interrupt()
                self._outcome.add(codes.INTERRUPTED, "interrupted")
            except Exception as error:  # nobody expected it: the evidence and the teardown follow all the same
                self._unexpected(error, codes.UNMEASURED if self._prometheus else codes.INSTALL_FAILED)
            self._concluding = True
            await self._conclude(window)
        except asyncio.CancelledError:
            self._absorb_interrupt()
            await self._force_down()
        return self._outcome

    async def _steps(self) -> SoakWindow:
        plan, options, journal, facts = self._plan, self._options, self._journal, self._facts
        values = _merged(plan.values(options.run_id), options.overrides)
        write_json(options.output / "plan.json", plan_document(plan, options.run_id))
        write_values(options.output / "rendered-values.yaml", values)

        with facts.timing("host"):
            journal.say("host", "starting a control plane on this machine")
            self._ground = await prepare_ground(options.bin_dir)
            journal.say("host", "up", kubeconfig=str(self._ground.kubeconfig), **self._ground.facts)

        with facts.timing("install"):
            self._api = api = HostApi(self._ground.kubeconfig, NAMESPACE, options.run_id, self._ground.private_dir)
            self._helm = Helm(options.helm, self._ground.kubeconfig, RELEASE, NAMESPACE)
            await prepare_stage(api, options.run_id, self._ground.private_dir)
            journal.say("install", f"helm install {RELEASE} -n {NAMESPACE}")
            await install_chart(self._helm, api, journal, options.chart, values, INSTALL_SECONDS)
            address = await self._ground.address(api, "prometheus-0", 9090)
            self._prometheus = prometheus = Prometheus(f"https://{address}", self._ground.private_dir)
            journal.say("install", "every pod is Ready")

        with facts.timing("settle"):
            await api.set_phase("settle")
            await Settle(plan, api, prometheus, journal).wait()
            journal.say("settle", "steady: demand is covered by bound capacity and nothing moves")

        with facts.timing("soak"):
            self._soak = Soak(plan, api, prometheus, journal, gates_for(plan))
            return await self._soak.hold()

    async def _conclude(self, window: SoakWindow | None) -> None:
        """Evidence, verdict, teardown; none of them keeps the next one from happening."""
        try:
            async with asyncio.timeout(EVIDENCE_SECONDS):
                await self._keep_evidence(window)
        except TimeoutError:
            self._outcome.add(codes.UNMEASURED, f"evidence was not complete after {format_duration(EVIDENCE_SECONDS)}")
        except Exception as error:  # whatever the evidence lacks, the teardown must follow
            self._unexpected(error, codes.UNMEASURED)
        finally:
            self._write_summary()
        await self._tear_down()
        self._write_summary()

    async def _keep_evidence(self, window: SoakWindow | None) -> None:
        facts, journal = self._facts, self._journal
        with facts.timing("evidence"):
            if self._prometheus and self._api and self._ground:
                journal.say("evidence", "reading gates and hops, keeping the Prometheus snapshot")
                facts.hops = await self._read_hops(self._prometheus)
                if window:
                    await self._judge(self._prometheus, window)
                at = window.end if window else time.time()
                facts.informational = await read_informational(self._prometheus, self._plan.window_seconds, at)
                await self._snapshot(self._prometheus, self._api, self._ground)
            if self._api and not self._outcome.passed:
                try:
                    kept = await keep_logs(self._api, self._options.output / "logs")
                    journal.say("evidence", f"kept {kept} logs")
                except ScaletestError as error:
                    journal.say("evidence", f"logs could not be kept: {error.message}")

    async def _judge(self, prometheus: Prometheus, window: SoakWindow) -> None:
        plan, seconds = self._plan, self._plan.window_seconds
        least = plan.profile.slo.min_observations
        records: list[GateRecord] = []
        for gate in gates_for(plan):
            reading = await read_gate(prometheus, gate, seconds, window.start, window.end)
            records.append(judge(gate, reading, seconds, least))
        if self._soak:
            records.append(judge(reclaim_gate(plan), await self._soak.reclaims.reading(window.end), seconds, least))
            records.append(judge(restart_gate(), self._soak.restarts, seconds, least))
        for record in records:
            self._journal.say("gate", f"{record.title}: {record.verdict}, {record.reason}", **record.document())
        self._facts.soak = window
        self._facts.gates = records
        failed = [record for record in records if record.verdict == "fail"]
        unmeasured = [record for record in records if record.verdict in ("no-data", "saturated")]
        for record in failed:
            self._outcome.add(codes.GATE_FAILED, f"{record.key}: {record.reason}")
        for record in unmeasured:
            self._outcome.add(codes.UNMEASURED, f"{record.key} is {record.verdict}: {record.reason}")
        if (failed or unmeasured) and (broken := await diagnose(prometheus)):
            self._outcome.add(codes.GATE_FAILED if failed else codes.UNMEASURED, broken)

    async def _read_hops(self, prometheus: Prometheus) -> list[HopReading]:
        try:
            return await read_hops(prometheus)
        except PrometheusUnreachable as error:
            self._journal.say("evidence", str(error))
            return []

    async def _snapshot(self, prometheus: Prometheus, api: HostApi, ground: Ground) -> None:
        try:
            sidecar = f"https://{await ground.address(api, 'prometheus-0', 9091)}"
            counted = await keep_snapshot(prometheus, sidecar, ground.private_dir, self._options.output / SNAPSHOT)
        except (SnapshotFailed, ScaletestError) as error:
            self._outcome.add(codes.UNMEASURED, str(error))
            self._journal.say("evidence", str(error))
        else:
            self._facts.snapshot = counted
            self._journal.say(
                "evidence", f"snapshot: {counted['series']} series, {counted['samples']} samples", **counted
            )

    async def _tear_down(self) -> None:
        with self._facts.timing("teardown"):
            self._journal.say("teardown", "removing the release, the namespace and the host")
            left = await self._remove_from_cluster()
            if self._ground:
                # On the embedded host the cluster goes with its ground, and so does whatever was left in it.
                left = [] if self._ground.kind == "embedded" else left
                try:
                    await self._ground.stop()
                except Leftovers as error:
                    left.append(error.message)
            if left:
                self._fail(Leftovers(f"left behind: {', '.join(left)}", hint="remove it by hand"))
            else:
                self._journal.say("teardown", "nothing is left behind")

    async def _remove_from_cluster(self) -> list[str]:
        """Remove the release and the namespace; returns what is still there."""
        if not (self._api and self._helm):
            return []
        try:
            async with asyncio.timeout(TEARDOWN_SECONDS):
                await self._helm.uninstall(TEARDOWN_SECONDS)
                await self._api.delete_namespace(TEARDOWN_SECONDS)
                return await self._api.leftovers()
        except (ScaletestError, ApiException, TimeoutError) as error:
            self._journal.say("teardown", f"the cluster's part failed: {error or 'out of time'}")
            return [f"namespace/{NAMESPACE}"]

    async def _force_down(self) -> None:
        self._outcome.add(codes.INTERRUPTED, "interrupted twice")
        self._write_summary()
        if self._ground:
            await self._ground.stop(force=True)

    def _absorb_interrupt(self) -> None:
        if not self._interrupts or not self._task:
            raise asyncio.CancelledError
        self._task.uncancel()

    def _fail(self, error: ScaletestError) -> None:
        self._outcome.add(error.exit_code, error.message)
        self._journal.say("failed", error.message, hint=error.hint)

    def _unexpected(self, error: Exception, exit_code: int) -> None:
        sentence = f"unexpected {type(error).__name__}: {error}".splitlines()[0]
        (self._options.output / "traceback.txt").write_text("".join(traceback.format_exception(error)))
        self._outcome.add(exit_code, sentence)
        self._journal.say("failed", sentence, hint="traceback.txt in the results has the details")

    def _write_summary(self) -> None:
        write_json(self._options.output / "summary.json", summarise(self._facts, self._outcome))


def _merged(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Overrides win; maps are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in overrides.items():
        both_maps = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both_maps else value
    return merged

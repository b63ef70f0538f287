"""Waits for the steady state of BF-0045; gives up at the budget, at a plateau, or at the profile's checkpoint."""

import asyncio

from scaletest.errors import KubeApiError, NotSteady, PrometheusUnreachable
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.hops import diagnose, hops_of
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.readings.bottlenecks import attribute
from scaletest.model.documents.durations import format_duration
from scaletest.model.plan import Plan
from scaletest.run.journal import RunJournal
from scaletest.run.steps.overview import FleetFigures, look_at_fleet
from scaletest.run.steps.steadiness import POLL_SECONDS, QUERIES, QUIET_POLLS, Poll, Steadiness
from scaletest.run.target.kube_api import KubeApi

_CYCLE = "shardCycleDurationP99Seconds"
_CYCLE_WINDOW_SECONDS = 120


class Settle:
    """The step of the run."""

    def __init__(self, plan: Plan, api: KubeApi, prometheus: Prometheus, journal: RunJournal) -> None:
        self._plan = plan
        self._api = api
        self._prometheus = prometheus
        self._journal = journal

    async def wait(self) -> None:
        """Return once steady; raise NotSteady with the reason and the broken hop otherwise."""
        scarce = self._plan.profile.slo.expect_standing_shortfall
        state = Steadiness(self._plan.geometry.kwok_clusters, self._plan.pods, scarce=scarce)
        budget, checkpoint = self._plan.ramp_budget_seconds, self._plan.profile.abort_checkpoint
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            next_poll = loop.time() + POLL_SECONDS
            poll = await self._look()
            state.observe(poll)
            self._say(poll, state, await self._fleet())
            if state.steady:
                return
            if state.plateaued:
                await self._give_up("the demand-side plateau", state)
            if next_poll > start + budget:
                await self._give_up(f"the ramp budget of {budget:g} s elapsed", state)
            if checkpoint and loop.time() >= start + checkpoint.at_seconds:
                if missed := await self._missed(poll):
                    after = format_duration(checkpoint.at_seconds)
                    await self._give_up(f"the abort checkpoint at {after} was missed: {missed}", state)
                checkpoint = None
            await asyncio.sleep(next_poll - loop.time())

    async def _give_up(self, why: str, state: Steadiness) -> None:
        """Say what is missing, which hop starved, and what to look at (docs/reference/harness.md#reading-a-bad-run)."""
        hops = hops_of(self._plan.profile.load_profile.mode)
        broken = await diagnose(self._prometheus, hops) or await attribute(self._prometheus, gates_for(self._plan))
        first = state.unmet[0].look_at if state.unmet else ""
        raise NotSteady(
            f"steady state: {why}: {state.why_not()}" + (f"; {broken}" if broken else ""),
            hint=f"look at {first}" if first else "",
        )

    async def _missed(self, poll: Poll) -> str:
        """What the checkpoint wanted by now and did not get; empty if it did."""
        checkpoint = self._plan.profile.abort_checkpoint
        if checkpoint is None:
            return ""
        if checkpoint.fill_fraction is not None:
            fill = (poll.active or 0) / self._plan.pods
            if fill < checkpoint.fill_fraction:
                return f"{fill:.0%} of the demand is there, {checkpoint.fill_fraction:.0%} were wanted"
        if checkpoint.cycle_p99_seconds is not None:
            gate = next(gate for gate in gates_for(self._plan) if gate.key == _CYCLE)
            try:
                cycle = await self._prometheus.value(gate.windowed(_CYCLE_WINDOW_SECONDS))
            except PrometheusUnreachable as error:
                return str(error)
            if cycle is None or cycle > checkpoint.cycle_p99_seconds:
                shown = "no cycles are recorded" if cycle is None else f"the cycle p99 is {cycle:.3g} s"
                return f"{shown}, at most {checkpoint.cycle_p99_seconds:g} s were wanted"
        return ""

    async def _look(self) -> Poll:
        try:
            ready = await self._api.ready_pods("kwok-cluster")
        except KubeApiError as error:  # it may come back; until then nothing counts as steady
            self._journal.say("settle", str(error).splitlines()[0])
            ready = 0
        try:
            values = await asyncio.gather(*(self._prometheus.value(query) for query in QUERIES.values()))
        except PrometheusUnreachable:
            return Poll(ready)
        return Poll(ready, **dict(zip(QUERIES, values, strict=True)))

    async def _fleet(self) -> FleetFigures:
        try:
            return await look_at_fleet(self._prometheus)
        except PrometheusUnreachable:
            return {}

    def _say(self, poll: Poll, state: Steadiness, fleet: FleetFigures) -> None:
        """A line for BF-0045's conditions, and one for each of the harness's own that does not hold."""
        known = {name: value for name, value in vars(poll).items() if value is not None}
        self._journal.say("settle", self._line(poll, state), fleet=fleet, **known)
        for unmet in state.unmet:
            if unmet.harness:
                self._journal.say("settle", f"harness: {unmet.what}")

    def _line(self, poll: Poll, state: Steadiness) -> str:
        geometry = self._plan.geometry
        return (
            f"clusters {poll.clusters_ready}/{geometry.kwok_clusters} · "
            f"demand {_shown(poll.active)}/{self._plan.pods} · "
            f"shortfalls {_shown(poll.shortfalls)} · acquired {_shown(poll.acquisitions)} · "
            f"reclaimed {_shown(poll.reclaims)} · bound {_shown(poll.bound)} · quiet {state.quiet}/{QUIET_POLLS}"
        )


def _shown(value: float | None) -> str:
    return "no" if value is None else f"{value:g}"

"""Waits for the steady state of ADR-0045: demand is covered by bound capacity, and nothing moves any more."""

import asyncio
from dataclasses import dataclass
from typing import Any

from scaletest.errors import NotSteady
from scaletest.model.plan import Plan
from scaletest.run.gates import LOAD_FRACTION
from scaletest.run.hops import diagnose
from scaletest.run.hostapi import HostApi
from scaletest.run.journal import Journal
from scaletest.run.overview import look_at_fleet
from scaletest.run.prometheus import Prometheus, PrometheusUnreachable

POLL_SECONDS = 10
QUIET_POLLS = 3
PLATEAU_POLLS = 12

_QUERIES = {
    "active": "sum(scaletest_loadgen_cr_active)",
    "demand": "sum(bigfleet_shard_demand_machines)",
    "shortfalls": "sum(bigfleet_shard_shortfalls)",
    "acquisitions": 'sum(bigfleet_shard_actions_total{kind=~"Bootstrap|Provision"})',
    "reclaims": 'sum(bigfleet_shard_actions_total{kind="Reclaim"})',
    "waiting": "sum(bigfleet_shard_seeded_waiting)",
    "bound": "sum(bigfleet_scaletest_node_creator_bound_pods)",
}


@dataclass(frozen=True)
class Poll:
    """One look at the fleet. None: Prometheus had no such series, which is never steady."""

    clusters_ready: int
    active: float | None = None
    demand: float | None = None
    shortfalls: float | None = None
    acquisitions: float | None = None
    reclaims: float | None = None
    # Seeded machines whose node has not reported yet: a condition of the harness, not of ADR-0045.
    waiting: float | None = None
    bound: float | None = None


class Steadiness:
    """Judges polls one after the other; strict: any miss starts the count anew."""

    def __init__(self, clusters: int, pods: int) -> None:
        self._clusters = clusters
        self._wanted_active = int(LOAD_FRACTION * pods)
        self._previous: Poll | None = None
        self.quiet = 0
        self.stuck = 0

    @property
    def steady(self) -> bool:
        return self.quiet >= QUIET_POLLS

    @property
    def plateaued(self) -> bool:
        """A standing shortfall at full demand that nobody works on any more."""
        return self.stuck >= PLATEAU_POLLS

    def observe(self, poll: Poll) -> None:
        previous, self._previous = self._previous, poll
        flat = previous is not None and poll.acquisitions is not None and poll.acquisitions == previous.acquisitions
        demanded = self._demand_built(poll)
        covered = demanded and poll.clusters_ready >= self._clusters and poll.shortfalls == 0 and poll.waiting == 0
        self.quiet = self.quiet + 1 if covered and flat else 0
        self.stuck = self.stuck + 1 if demanded and flat and (poll.shortfalls or 0) > 0 else 0

    def why_not(self) -> str:
        """What is missing, in one sentence (spec/harness.md §5.3)."""
        poll = self._previous
        if poll is None:
            return "no poll was made"
        if poll.clusters_ready < self._clusters:
            return f"{self._clusters - poll.clusters_ready} of {self._clusters} clusters are not Ready"
        if not self._demand_built(poll):
            return (
                f"demand is not built: {_shown(poll.active)} of {self._wanted_active} Pods are alive as demand, "
                f"the shard knows {_shown(poll.demand)} needs"
            )
        if poll.shortfalls is None:
            return "the shard reports no shortfalls series"
        if poll.shortfalls > 0:
            return f"undersupply: {poll.shortfalls:g} needs stand unmet"
        if poll.waiting != 0:
            return f"{_shown(poll.waiting)} seeded machines still wait for their node"
        return (
            f"oscillation: {_shown(poll.acquisitions)} acquisitions and {_shown(poll.reclaims)} reclaims, still moving"
        )

    def _demand_built(self, poll: Poll) -> bool:
        return (poll.active or 0) >= self._wanted_active and (poll.demand or 0) > 0


def _shown(value: float | None) -> str:
    return "no" if value is None else f"{value:g}"


class Settle:
    """The step of the run."""

    def __init__(self, plan: Plan, api: HostApi, prometheus: Prometheus, journal: Journal) -> None:
        self._plan = plan
        self._api = api
        self._prometheus = prometheus
        self._journal = journal

    async def wait(self) -> None:
        """Return once steady; raise NotSteady with the reason and the broken hop otherwise."""
        state = Steadiness(self._plan.geometry.kwok_clusters, self._plan.pods)
        budget = self._plan.ramp_budget_seconds
        loop = asyncio.get_running_loop()
        deadline = loop.time() + budget
        while True:
            next_poll = loop.time() + POLL_SECONDS
            poll = await self._look()
            state.observe(poll)
            known = {name: value for name, value in vars(poll).items() if value is not None}
            self._journal.say("settle", self._line(poll, state), fleet=await self._fleet(), **known)
            if state.steady:
                return
            if state.plateaued or next_poll > deadline:
                why = "the demand-side plateau" if state.plateaued else f"the ramp budget of {budget:g} s elapsed"
                broken = await diagnose(self._prometheus)
                raise NotSteady(f"steady state: {why}: {state.why_not()}" + (f"; {broken}" if broken else ""))
            await asyncio.sleep(next_poll - loop.time())

    async def _look(self) -> Poll:
        ready = await self._api.ready_pods("kwok-cluster")
        try:
            values = await asyncio.gather(*(self._prometheus.value(query) for query in _QUERIES.values()))
        except PrometheusUnreachable:
            return Poll(ready)
        return Poll(ready, **dict(zip(_QUERIES, values, strict=True)))

    async def _fleet(self) -> dict[str, Any]:
        try:
            return await look_at_fleet(self._prometheus)
        except PrometheusUnreachable:
            return {}

    def _line(self, poll: Poll, state: Steadiness) -> str:
        geometry = self._plan.geometry
        return (
            f"clusters {poll.clusters_ready}/{geometry.kwok_clusters} · "
            f"demand {_shown(poll.active)}/{self._plan.pods} · "
            f"shortfalls {_shown(poll.shortfalls)} · acquired {_shown(poll.acquisitions)} · "
            f"waiting {_shown(poll.waiting)} · bound {_shown(poll.bound)} · quiet {state.quiet}/{QUIET_POLLS}"
        )

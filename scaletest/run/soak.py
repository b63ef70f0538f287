"""Holds the load for the soak while churn and losses go on, and samples the gates on the way."""

import asyncio
import time
from dataclasses import dataclass

from scaletest.model.durations import format_duration
from scaletest.model.plan import Plan
from scaletest.run.gates import Gate, Reading
from scaletest.run.hostapi import HostApi
from scaletest.run.journal import Journal
from scaletest.run.measure import ReclaimCount
from scaletest.run.prometheus import Prometheus, PrometheusUnreachable

_TICK_SECONDS = 5
_LINE_EVERY_TICKS = 3


@dataclass(frozen=True)
class SoakWindow:
    """When the soak was, in unix seconds."""

    start: float
    end: float


class Soak:
    """The step of the run."""

    def __init__(self, plan: Plan, api: HostApi, prometheus: Prometheus, journal: Journal, gates: list[Gate]) -> None:
        self._plan = plan
        self._api = api
        self._prometheus = prometheus
        self._journal = journal
        self._gates = gates
        self.reclaims = ReclaimCount(prometheus)
        # Known once the soak is over.
        self.restarts = Reading(None)

    async def hold(self) -> SoakWindow:
        """Soak for the planned time."""
        before = await self._api.restarts()
        start = time.time()
        await self._api.set_phase("soak", start)
        end = start + self._plan.soak_seconds
        self._journal.say("soak", f"holding for {format_duration(self._plan.soak_seconds)}", soakStart=start)
        ticks = 0
        while (now := time.time()) < end:
            ticks += 1
            if now >= start + self._plan.profile.load_profile.settle_seconds:
                await self._start_counting(now)
            if ticks % _LINE_EVERY_TICKS == 0:
                await self._sample(now, start)
            await asyncio.sleep(max(0.0, min(_TICK_SECONDS, end - time.time())))
        window = SoakWindow(start, time.time())
        self.restarts = self._count_restarts(before, await self._api.restarts())
        return window

    def _count_restarts(self, before: dict[str, int], after: dict[str, int]) -> Reading:
        """Containers that ended during the soak, and pods that went away altogether."""
        ended = {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
        ended |= dict.fromkeys(before.keys() - after.keys(), 1)
        came_back = [f"{name} ended and came back ({count}×)" for name, count in ended.items() if name in after]
        gone = [f"{name} is gone" for name in ended if name not in after]
        for sentence in [*came_back, *gone]:
            self._journal.say("soak", sentence)
        return Reading(sum(ended.values()), problem="; ".join(gone), detail="; ".join(came_back))

    async def _start_counting(self, now: float) -> None:
        try:
            await self.reclaims.try_start(now)
        except PrometheusUnreachable as error:
            self._journal.say("soak", str(error))

    async def _sample(self, now: float, start: float) -> None:
        """One line for people, all gate values for the diary."""
        seconds = max(_TICK_SECONDS * 2, min(self._plan.window_seconds, int(now - start)))
        try:
            values = await asyncio.gather(*(self._prometheus.value(gate.windowed(seconds)) for gate in self._gates))
            lost, bound, shortfalls = await asyncio.gather(
                self._prometheus.value("sum(bigfleet_provider_losses_total)"),
                self._prometheus.value("sum(bigfleet_scaletest_node_creator_bound_pods)"),
                self._prometheus.value("sum(bigfleet_shard_shortfalls)"),
            )
        except PrometheusUnreachable as error:
            self._journal.say("soak", str(error))
            return
        left = format_duration(max(0.0, start + self._plan.soak_seconds - now))
        self._journal.say(
            "soak",
            f"{left} left · {lost or 0:g} machines lost · {bound or 0:g} Pods bound (target {self._plan.pods}) · "
            f"{shortfalls or 0:g} shortfalls",
            gates={gate.key: value for gate, value in zip(self._gates, values, strict=True)},
        )

"""Holds the load for the soak while churn and losses go on, and samples the gates on the way."""

import asyncio
import time
from dataclasses import replace

from scaletest.errors import PrometheusUnreachable, ScaletestError
from scaletest.judge.facts import SoakSample
from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.gates.listing import (
    FAIL_FAST_AFTER_SECONDS,
    FAIL_FAST_KEYS,
    FAIL_FAST_WINDOW_SECONDS,
    plain_gates,
    reclaim_gate,
)
from scaletest.judge.gates.windows import SoakWindow, soak_window
from scaletest.judge.judging import Soaked
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.readings.readings import read_gate, value_now
from scaletest.judge.readings.reclaims import read_reclaims
from scaletest.judge.selfcheck.pressure import PressureSample, pressed_minutes, read_pressure, worst_percent
from scaletest.judge.selfcheck.strain import Seen
from scaletest.model.counting import noun
from scaletest.model.documents.durations import format_duration
from scaletest.model.plan import Plan
from scaletest.run.journal import RunJournal
from scaletest.run.steps.overview import FleetFigures, look_at_fleet
from scaletest.run.steps.restarts import endings, restarts_reading
from scaletest.run.target.kube_api import ContainerLife, KubeApi

_TICK_SECONDS = 5
_LINE_EVERY_TICKS = 3


class Soak:
    """The step of the run."""

    def __init__(self, plan: Plan, api: KubeApi, prometheus: Prometheus, journal: RunJournal) -> None:
        self._plan = plan
        self._api = api
        self._prometheus = prometheus
        self._journal = journal
        self._gates = plain_gates(plan)
        self._pressure: list[PressureSample] = []
        self._start = 0.0
        self._before: dict[str, ContainerLife] = {}
        self.samples: list[SoakSample] = []

    async def begin(self) -> float:
        """Tell the fleet, and say when it was; `hold` follows."""
        self._before = await self._api.lives()
        self._start = start = time.time()
        await self._api.set_phase("soak", start)
        self._journal.say("soak", f"holding for {format_duration(self._plan.soak_seconds)}", soakStart=start)
        return start

    async def hold(self) -> Soaked:
        """Soak for the planned time."""
        start, end = self._start, self._start + self._plan.soak_seconds
        ticks, cut_short, looked = 0, "", False
        while (now := time.time()) < end:
            ticks += 1
            self._feel_pressure(now)
            if ticks % _LINE_EVERY_TICKS == 0:
                await self._sample(now, start)
            if not looked and now >= start + FAIL_FAST_AFTER_SECONDS:
                looked = True
                if cut_short := await self._hopeless(start, now):
                    break
            await asyncio.sleep(max(0.0, min(_TICK_SECONDS, end - time.time())))
        window = soak_window(self._plan, start, time.time())
        self._feel_pressure(window.end)
        try:
            soaked = self._soaked(window, self._before, await self._api.lives())
        except ScaletestError as error:  # what Prometheus saw can be judged all the same
            self._journal.say("soak", str(error))
            soaked = replace(self._soaked(window, {}, {}), restarts=Reading(None, problem=str(error)))
        return replace(soaked, cut_short=cut_short)

    async def _hopeless(self, start: float, now: float) -> str:
        """Why the soak need not go on: a bar that is missed over the last minutes already. Empty: it goes on."""
        for gate in (gate for gate in self._gates if gate.key in FAIL_FAST_KEYS):
            lately = SoakWindow(max(start, now - FAIL_FAST_WINDOW_SECONDS), now)
            reading = await read_gate(self._prometheus, gate, self._plan, lately)
            record = judge(gate, reading, FAIL_FAST_WINDOW_SECONDS, self._plan.profile.slo.min_observations)
            if record.verdict == "fail":
                after = format_duration(now - start)
                sentence = f"the soak was cut short after {after}: {gate.key}: {record.reason}"
                self._journal.say("soak", sentence)
                return sentence
        return ""

    def _feel_pressure(self, now: float) -> None:
        if self._is_this_machine and (sample := read_pressure(now)):
            self._pressure.append(sample)

    @property
    def _is_this_machine(self) -> bool:
        return self._plan.substrate.host_kind == "embedded"

    def _soaked(self, window: SoakWindow, before: dict[str, ContainerLife], after: dict[str, ContainerLife]) -> Soaked:
        """The soak's result, with every container that ended during it, BigFleet's or not."""
        ended = endings(before, after)
        for ending in ended:
            self._journal.say("soak", ending.sentence + ("" if ending.component else ", which is not BigFleet's"))
        limit = self._plan.substrate.self_check.cpu_pressure_percent
        return Soaked(
            window,
            restarts_reading(ended),
            Seen(
                pressure_percent=worst_percent(self._pressure),
                pressed=pressed_minutes(self._pressure, limit),
                is_this_machine=self._is_this_machine,
                restarts={ending.name: ending.times for ending in ended},
            ),
        )

    async def _sample(self, now: float, start: float) -> None:
        """One line for people, all gate values for the diary."""
        seconds = max(_TICK_SECONDS * 2, min(self._plan.window_seconds, int(now - start)))
        counted_from = start + self._plan.reclaims_count_after_seconds
        try:
            values = await asyncio.gather(*(value_now(self._prometheus, gate, seconds) for gate in self._gates))
            fleet = await look_at_fleet(self._prometheus)
        except PrometheusUnreachable as error:
            self._journal.say("soak", str(error))
            return
        found = dict(zip((gate.key for gate in self._gates), values, strict=True))
        if now > counted_from:
            steady = soak_window(self._plan, start, now).stretches("steady")
            reclaims = await read_reclaims(self._prometheus, counted_from, steady)
            found[reclaim_gate(self._plan).key] = None if reclaims.problem else reclaims.value
        sample = SoakSample(now - start, {key: value for key, value in found.items() if value is not None})
        self.samples.append(sample)
        left = format_duration(max(0.0, start + self._plan.soak_seconds - now))
        pressure = worst_percent(self._pressure[-2:])
        self._journal.say(
            "soak",
            f"{left} left · {soak_figures(fleet, self._plan.pods)}",
            gates=found,
            fleet=fleet,
            **({} if pressure is None else {"cpuPressurePercent": round(pressure, 1)}),
        )


def soak_figures(fleet: FleetFigures, target: int) -> str:
    """How the fleet stands, in a line."""
    lost, bound, short = (figure or 0 for figure in (fleet["lost"], fleet["bound"], fleet["shortfalls"]))
    return (
        f"{lost:g} {noun(lost, 'machine')} lost · {bound:g} {noun(bound, 'Pod')} bound (target {target}) · "
        f"{short:g} {noun(short, 'shortfall')}"
    )

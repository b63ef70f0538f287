"""Reads gates from Prometheus: value, observations, the histogram's ceiling, and which member has the value."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from scaletest.errors import PrometheusUnreachable
from scaletest.judge.gates.figures import INFORMATIONAL
from scaletest.judge.gates.gate import COMPONENTS, UNMEASURED_VALUE, Gate, Reading
from scaletest.judge.gates.measures import (
    Growth,
    LongestGap,
    Noted,
    Promql,
    QuietReclaims,
    Recovery,
    SecondsOutside,
    Share,
    WorstMember,
)
from scaletest.judge.gates.windows import SoakWindow, Stretch
from scaletest.judge.prometheus import Prometheus, Sample
from scaletest.judge.readings.accusing import accused
from scaletest.judge.readings.envelopes import read_envelopes
from scaletest.judge.readings.gaps import longest_gap
from scaletest.judge.readings.reclaims import read_reclaims
from scaletest.judge.readings.recoveries import read_recovery
from scaletest.model.demand.draw import cluster_id
from scaletest.model.plan import Plan

# A quantile of a long soak hides a bad spell: the worst five minutes with enough observations count too.
_SPELL_SECONDS, _SPELL_STEP_SECONDS, _SPELL_OBSERVATIONS = 300, 60, 100


async def read_gate(prometheus: Prometheus, gate: Gate, plan: Plan, soak: SoakWindow) -> Reading:
    """What Prometheus says about one gate over its window; what the run saw itself is no matter of Prometheus."""
    try:
        reading = await _read(prometheus, gate, plan, soak)
        if reading.value is None or reading.component or gate.holds(reading.value):
            return reading
        return replace(reading, component=await accused(prometheus, gate, soak))
    except PrometheusUnreachable as error:
        return Reading(None, problem=str(error))


async def _read(prometheus: Prometheus, gate: Gate, plan: Plan, soak: SoakWindow) -> Reading:
    stretches = soak.stretches(gate.window)
    match gate.measure:
        case QuietReclaims():
            counted_from = soak.start + plan.reclaims_count_after_seconds
            return await read_reclaims(prometheus, counted_from, stretches)
        case Recovery():
            return await read_recovery(prometheus, gate.measure, soak)
        case SecondsOutside():
            return await read_envelopes(prometheus, gate.measure, _clusters(plan), stretches)
        case LongestGap():
            expected = _clusters(plan) if gate.measure.expects == "clusters" else _shards(plan)
            return _worst([await longest_gap(prometheus, gate.measure, expected, one) for one in stretches], gate)
        case Share():
            return _worst([await _share(prometheus, gate.measure, plan, one) for one in stretches], gate)
        case Growth():
            grown = [await prometheus.growth(gate.measure.counter, one.start, one.end) for one in stretches]
            known = [value for value in grown if value is not None]
            return Reading(sum(known) if len(known) == len(grown) else None)
        case WorstMember():
            return _worst([await _worst_member(prometheus, gate, gate.measure, plan, one) for one in stretches], gate)
        case Promql():
            return await _quantile_or_value(prometheus, gate, plan, soak)
        case Noted():
            return Reading(None, problem="this is not for Prometheus to say")


def _clusters(plan: Plan) -> list[str]:
    return [cluster_id(ordinal) for ordinal in range(plan.geometry.kwok_clusters)]


def _shards(plan: Plan) -> list[str]:
    return [f"bigfleet-shard-{ordinal}" for ordinal in range(plan.geometry.shards)]


def _worst(readings: Sequence[Reading], gate: Gate) -> Reading:
    """The worst of several stretches; if one of them has no value, neither has the gate."""
    unknown = next((reading for reading in readings if reading.value is None), None)
    if unknown:
        return unknown
    return (min if gate.least else max)(readings, key=lambda reading: reading.value or 0.0)


async def _quantile_or_value(prometheus: Prometheus, gate: Gate, plan: Plan, soak: SoakWindow) -> Reading:
    whole = soak.stretches(gate.window)[-1]
    seconds, start = window_of(plan, whole)
    value, observations, ceiling, spell = await asyncio.gather(
        prometheus.value(gate.windowed(seconds), whole.end),
        _observations(prometheus, gate.count, start, whole.end),
        _ceiling(prometheus, gate.histogram, whole.end),
        _worst_spell(prometheus, gate, start, whole.end),
    )
    if value is not None and spell is not None and spell[1] > value:
        at, worst = spell
        detail = f"in the five minutes that end {at - soak.start:.0f} s into the soak"
        return Reading(worst, observations, ceiling, detail=detail, at=(at - _SPELL_SECONDS, at))
    return Reading(value, observations, ceiling)


def window_of(plan: Plan, soak: Stretch) -> tuple[int, float]:
    """How far a plain query looks back from the end of the soak, in seconds, and to which moment."""
    seconds = max(1, min(plan.window_seconds, soak.seconds))
    return seconds, max(soak.start, soak.end - seconds)


async def _worst_spell(prometheus: Prometheus, gate: Gate, start: float, end: float) -> tuple[float, float] | None:
    """The end of the worst five minutes with enough observations, and their value."""
    if not gate.histogram or end - start <= _SPELL_SECONDS + _SPELL_STEP_SECONDS:
        return None
    first = start + _SPELL_SECONDS
    counts = f"sum(max_over_time({gate.count}[{_SPELL_SECONDS}s]) - min_over_time({gate.count}[{_SPELL_SECONDS}s]))"
    values, seen = await asyncio.gather(
        prometheus.series(gate.windowed(_SPELL_SECONDS), first, end, _SPELL_STEP_SECONDS),
        prometheus.series(counts, first, end, _SPELL_STEP_SECONDS),
    )
    observed = dict(seen[0][1]) if seen else {}
    found = [
        (at, value)
        for _, points in values
        for at, value in points
        if math.isfinite(value) and observed.get(at, 0.0) >= _SPELL_OBSERVATIONS
    ]
    return max(found, key=lambda point: point[1], default=None)


async def value_now(prometheus: Prometheus, gate: Gate, seconds: int) -> float | None:
    """A plain gate while the soak goes on, over the last so many seconds."""
    if not isinstance(gate.measure, WorstMember):
        return await prometheus.value(gate.windowed(seconds))
    members = await _members(prometheus, gate.measure, seconds)
    return _worst_of(gate, members).value if members else None


async def _members(prometheus: Prometheus, measure: WorstMember, seconds: int, at: float | None = None) -> list[Sample]:
    found = await prometheus.samples(measure.text(seconds), at)
    return [sample for sample in found if math.isfinite(sample.value)]


def _worst_of(gate: Gate, members: Sequence[Sample]) -> Sample:
    return (min if gate.least else max)(members, key=lambda sample: sample.value)


async def _worst_member(
    prometheus: Prometheus, gate: Gate, measure: WorstMember, plan: Plan, stretch: Stretch
) -> Reading:
    known = await _members(prometheus, measure, stretch.seconds, stretch.end)
    if missing := _missing(measure, known, plan):
        return Reading(None, problem=f"there is no value of {missing}")
    if not known:
        return Reading(None)
    worst = _worst_of(gate, known)
    blamed = next(
        (COMPONENTS[name] for label in measure.blames if (name := worst.labels.get(label)) in COMPONENTS), None
    )
    return Reading(worst.value, detail=_name(measure.members, worst), component=blamed)


def _missing(measure: WorstMember, known: Sequence[Sample], plan: Plan) -> str:
    expected = _clusters(plan) if measure.expects == "clusters" else []
    here = {sample.labels.get(label) for sample in known for label in measure.members}
    return next((name for name in expected if name not in here), "")


def _name(members: Sequence[str], sample: Sample) -> str:
    return ", ".join(sample.labels[label] for label in members if sample.labels.get(label, "metrics") != "metrics")


async def _share(prometheus: Prometheus, measure: Share, plan: Plan, stretch: Stretch) -> Reading:
    part, whole = await asyncio.gather(
        prometheus.growth_by(measure.part, measure.member, stretch.start, stretch.end),
        prometheus.growth_by(measure.whole, measure.member, stretch.start, stretch.end),
    )
    expected = _clusters(plan) if measure.member == "cluster" else _shards(plan)
    if silent := next((name for name in expected if not whole.get(name)), ""):
        return Reading(None, problem=f"{silent} sent nothing")
    name, share = min(((name, part.get(name, 0.0) / whole[name]) for name in expected), key=lambda pair: pair[1])
    return Reading(share, detail=f"{name}: {part.get(name, 0.0):g} of {whole[name]:g}")


async def _observations(prometheus: Prometheus, counter: str, start: float, end: float) -> int | None:
    if not counter:
        return None
    grown = await prometheus.growth(counter, start, end)
    return None if grown is None else round(grown)


async def _ceiling(prometheus: Prometheus, histogram: str, at: float) -> float | None:
    if not histogram:
        return None
    bounds = [
        float(sample.labels["le"]) for sample in await prometheus.samples(f"count by (le) ({histogram}_bucket)", at)
    ]
    return max((bound for bound in bounds if bound != float("inf")), default=None)


async def read_informational(prometheus: Prometheus, window_seconds: int, at: float) -> dict[str, float]:
    """The figures that are shown but not judged; −1 where there is none (BF-0017)."""

    async def read(query: str) -> float:
        try:
            value = await prometheus.value(query.replace("{w}", f"{window_seconds}s"), at)
        except PrometheusUnreachable:
            value = None
        return UNMEASURED_VALUE if value is None else value

    values = await asyncio.gather(*(read(query) for query in INFORMATIONAL.values()))
    return dict(zip(INFORMATIONAL, values, strict=True))

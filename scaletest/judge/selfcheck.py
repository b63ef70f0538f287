"""Whether the harness itself kept up during the soak; if it did not, nothing that was measured means anything.

Limits are the substrate's. Over one of them the verdict is void (exit code 6), and the sentence says what was short.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from scaletest.judge.pressure import WINDOW_SECONDS
from scaletest.judge.prometheus import Prometheus, PrometheusUnreachable, Sample
from scaletest.model.names import PROMETHEUS_POD
from scaletest.model.substrate import SelfCheck

CheckVerdict = Literal["ok", "over", "unmeasured", "skipped"]

# Of the chart's values.yaml.
_SCRAPE_SECONDS, _CONTROL_PLANE_SCRAPE_SECONDS = 5, 30
_TITLES = {
    "missedScrapesFraction": "scrapes missed by a target",
    "eventLoopLagP99Seconds": "event-loop lag p99",
    "cpuPressurePercent": "CPU pressure",
    "apiserverMutatingP99Seconds": "apiserver write p99",
}
# `{w}` is the window.
LAG = (
    "histogram_quantile(0.99, sum by (le, component, metrics_port, pod) (rate("
    'bigfleet_event_loop_lag_seconds_bucket{component=~"shard|kwok-cluster",metrics_port=~"metrics|operator|load-driver"}'
    "[{w}])))"
)
MUTATING = (
    'histogram_quantile(0.99, sum by (le, pod) (rate(apiserver_request_duration_seconds_bucket{verb="MUTATING"}[{w}])))'
)
# `{m}` is the minute that is looked for, `{r}` what the soak has beside it.
PRESSURE = "100 * max by (pod) (max_over_time(rate(scaletest_host_cpu_waiting_seconds_total[{m}s])[{r}s:5s]))"


@dataclass(frozen=True)
class CheckRecord:
    """One judged limit, as summary.json keeps it."""

    key: str
    title: str
    limit: float
    verdict: CheckVerdict
    reason: str
    # The worst that was measured; None if nothing was.
    value: float | None = None

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class ScrapeIntervals:
    """Seconds between two scrapes of a target, by Prometheus job."""

    bigfleet: int = _SCRAPE_SECONDS
    control_plane: int = _CONTROL_PLANE_SCRAPE_SECONDS

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ScrapeIntervals":
        """As the run's Helm values have them."""
        chosen = values.get("prometheus", {})
        return cls(
            int(chosen.get("scrapeSeconds", _SCRAPE_SECONDS)),
            int(chosen.get("controlPlaneScrapeSeconds", _CONTROL_PLANE_SCRAPE_SECONDS)),
        )

    def seconds(self, job: str) -> int:
        return self.control_plane if job == "control-plane" else self.bigfleet


@dataclass(frozen=True)
class Strain:
    """What the runner saw of its own machine, and what ended while it looked."""

    # Of this machine's worst minute; None where nobody counts it.
    pressure_percent: float | None = None
    # False: the hosts are other machines; the load-drivers on them count their pressure.
    is_this_machine: bool = True
    # `pod/container` → how often it ended. What such a pod missed of its scrapes has a gate of its own.
    restarts: Mapping[str, int] = field(default_factory=dict)

    @property
    def restarted_pods(self) -> frozenset[str]:
        return frozenset(name.partition("/")[0] for name in self.restarts)


def missed_share(answered: float, scraped: float, expected: int) -> float:
    """Which share of its scrapes a target missed; one at the edge of the window may fall to either side."""
    failed = scraped - answered
    never = max(0.0, expected - 1 - scraped)
    return (failed + never) / max(1, expected)


async def check_harness(
    prometheus: Prometheus, limits: SelfCheck, start: float, end: float, intervals: ScrapeIntervals, strain: Strain
) -> list[CheckRecord]:
    """Judge every limit over the soak."""
    seconds = max(1, round(end - start))
    try:
        answered, scraped, lags, writes, hosts = await asyncio.gather(
            prometheus.samples(f"sum_over_time(up[{seconds}s])", end),
            prometheus.samples(f"count_over_time(up[{seconds}s])", end),
            # One scrape more: what grew in the soak is counted from the last sample before it.
            prometheus.samples(LAG.replace("{w}", f"{seconds + intervals.bigfleet}s"), end),
            prometheus.samples(MUTATING.replace("{w}", f"{seconds + intervals.control_plane}s"), end),
            prometheus.samples(_worst_minute(seconds), end),
        )
    except PrometheusUnreachable as error:
        here = [_pressure_here(limits, strain)] if strain.is_this_machine else []
        asked = (key for key in _TITLES if not here or key != here[0].key)
        return [*(_record(limits, key, "unmeasured", str(error)) for key in asked), *here]
    missed = _missed(answered, scraped, seconds, intervals, strain.restarted_pods)
    if PROMETHEUS_POD in strain.restarted_pods:
        blind = "Prometheus itself ended, so the scrapes that it missed say nothing"
        scrapes = _record(limits, "missedScrapesFraction", "unmeasured", blind)
    else:
        scrapes = _worst(
            limits, "missedScrapesFraction", missed, "Prometheus missed {:.0%} of its scrapes; the limit is {:.0%}"
        )
    late = ((_process(lag.labels), lag.value) for lag in lags)
    slow = ((write.labels.get("pod", "?"), write.value) for write in writes)
    return [
        scrapes,
        _worst(limits, "eventLoopLagP99Seconds", late, "its event loop ran {:.2g} s late (p99); the limit is {:g} s"),
        _pressure_here(limits, strain) if strain.is_this_machine else _pressure_elsewhere(limits, hosts),
        _worst(
            limits,
            "apiserverMutatingP99Seconds",
            slow,
            "a write to its apiserver took {:.2g} s (p99); the limit is {:g} s",
        ),
    ]


def _missed(
    answered: Sequence[Sample], scraped: Sequence[Sample], seconds: int, intervals: ScrapeIntervals, out: frozenset[str]
) -> Iterable[tuple[str, float]]:
    answers = {_target(sample): sample.value for sample in answered}
    for sample in scraped:
        if sample.labels.get("pod") not in out:
            expected = seconds // intervals.seconds(sample.labels.get("job", ""))
            yield _process(sample.labels), missed_share(answers.get(_target(sample), 0.0), sample.value, expected)


def _target(sample: Sample) -> tuple[str, str]:
    return sample.labels.get("job", ""), sample.labels.get("instance", "")


def _process(labels: Mapping[str, str]) -> str:
    port, pod = labels.get("metrics_port", "metrics"), labels.get("pod", "?")
    return pod if port == "metrics" else f"{pod} ({port})"


def _worst(limits: SelfCheck, key: str, found: Iterable[tuple[str, float]], sentence: str) -> CheckRecord:
    """Judge the worst of what was measured; the sentence has a place for it and one for the limit."""
    limit = _limit(limits, key)
    known = [(where, value) for where, value in found if math.isfinite(value)]
    if not known:
        return _record(limits, key, "unmeasured", f"{_TITLES[key]}: Prometheus has no value")
    where, value = max(known, key=lambda entry: entry[1])
    reason = f"{where}: {sentence.format(value, limit)}"
    return _record(limits, key, "over" if value > limit else "ok", reason, value)


def _pressure_here(limits: SelfCheck, strain: Strain) -> CheckRecord:
    key, limit = "cpuPressurePercent", limits.cpu_pressure_percent
    worst = strain.pressure_percent
    if worst is None:
        return _record(limits, key, "skipped", "this kernel does not count it (/proc/pressure/cpu)")
    reason = f"cores were short for {worst:.0f} % of the worst minute; the limit is {limit:g} %"
    return _record(limits, key, "over" if worst > limit else "ok", reason, worst)


def _worst_minute(seconds: int) -> str:
    minute = min(WINDOW_SECONDS, seconds)
    return PRESSURE.replace("{m}", f"{minute:g}").replace("{r}", f"{max(5, seconds - minute):g}")


def _pressure_elsewhere(limits: SelfCheck, hosts: Sequence[Sample]) -> CheckRecord:
    """Of the hosts that carry a KWOK cluster; what else is in their fleet nobody sees."""
    key = "cpuPressurePercent"
    if not hosts:
        return _record(limits, key, "skipped", "no host of a KWOK cluster counts it (/proc/pressure/cpu)")
    found = ((f"the host of {host.labels.get('pod', '?')}", min(100.0, host.value)) for host in hosts)
    return _worst(limits, key, found, "its cores were short for {:.0f} % of the worst minute; the limit is {:g} %")


def _record(limits: SelfCheck, key: str, verdict: CheckVerdict, reason: str, value: float | None = None) -> CheckRecord:
    return CheckRecord(key, _TITLES[key], _limit(limits, key), verdict, reason, value)


def _limit(limits: SelfCheck, key: str) -> float:
    return float(limits.model_dump(by_alias=True)[key])


def shortage(records: Iterable[CheckRecord]) -> str:
    """What was short, in one sentence; empty if the harness kept up."""
    over = [record.reason for record in records if record.verdict == "over"]
    return f"the harness was overloaded, so the verdict is void: {'; '.join(over)}" if over else ""

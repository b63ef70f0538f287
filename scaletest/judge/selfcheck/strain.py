"""How strained the machine was during the soak, and when.

Strain alone makes nothing void: a pass on a busy machine is as good as any. It explains a bar that was missed, if
strain can cause that at all, and if the machine was strained when it was missed (ADR-19).
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaletest.errors import PrometheusUnreachable
from scaletest.judge.gates.windows import Stretch
from scaletest.judge.prometheus import Prometheus, Sample
from scaletest.judge.selfcheck.checks import CheckRecord, check, judged, limit_of, strains, unmeasured
from scaletest.judge.selfcheck.pressure import WINDOW_SECONDS
from scaletest.model.documents.substrate import SelfCheck
from scaletest.model.names import PROMETHEUS_POD

# Of the chart's values.yaml.
_SCRAPE_SECONDS, _CONTROL_PLANE_SCRAPE_SECONDS = 5, 30
# Before and after a strained minute its wake counts too.
_WAKE_SECONDS = 30.0
_KEYS = (
    "missedScrapesFraction",
    "eventLoopLagP99Seconds",
    "runDelayFraction",
    "cpuPressurePercent",
    "apiserverMutatingP99Seconds",
)
# `{w}` is the window. Processes of the harness: a late event loop of BigFleet may be BigFleet's own doing.
LAG = (
    "histogram_quantile(0.99, sum by (le, component, metrics_port, pod) (rate("
    'bigfleet_event_loop_lag_seconds_bucket{component="kwok-cluster",metrics_port=~"load-driver|node-creator"}'
    "[{w}])))"
)
MUTATING = (
    'histogram_quantile(0.99, sum by (le, pod) (rate(apiserver_request_duration_seconds_bucket{verb="MUTATING"}[{w}])))'
)
RUN_DELAY = (
    "max by (pod, metrics_port) (max_over_time(rate(bigfleet_process_run_delay_seconds_total{"
    'component=~"shard|coordinator|kwok-cluster",metrics_port=~"metrics|operator|pod-controller"}[{m}s])[{r}s:5s]))'
)
# `{m}` is the minute that is looked for, `{r}` what the soak has beside it.
PRESSURE = "100 * max by (pod) (max_over_time(rate(scaletest_host_cpu_waiting_seconds_total[{m}s])[{r}s:5s]))"
# Those whose scrapes say something about the harness.
_HARNESS_PORTS = frozenset({"load-driver", "node-creator", "control-plane"})


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

    @property
    def timeout_seconds(self) -> int:
        """After which Prometheus gives a scrape of any job up (chart/templates/prometheus.yaml)."""
        return self.bigfleet


@dataclass(frozen=True)
class Seen:
    """What the runner saw of its own machine, and what ended while it looked."""

    # CPU pressure of this machine's worst minute; None where it is not counted.
    pressure_percent: float | None = None
    # Minutes of the soak in which it was beyond the limit, as (start, end) in unix seconds.
    pressed: tuple[tuple[float, float], ...] = ()
    # False: the hosts are other machines; the load-drivers on them count their pressure.
    is_this_machine: bool = True
    # `pod/container` → how often it ended. What such a pod missed of its scrapes has a gate of its own.
    restarts: Mapping[str, int] = field(default_factory=dict)

    @property
    def restarted_pods(self) -> frozenset[str]:
        return frozenset(name.partition("/")[0] for name in self.restarts)


@dataclass(frozen=True)
class Strained:
    """When the machine was strained, and by what."""

    reasons: tuple[str, ...] = ()
    # Empty although there are reasons: all the time.
    when: tuple[tuple[float, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def at(self, moment: tuple[float, float] | None) -> bool:
        """Whether it was strained at `moment`; if the time of either is unknown, whether it was strained at all."""
        if not self.reasons:
            return False
        if moment is None or not self.when:
            return True
        start, end = moment
        return any(since - _WAKE_SECONDS <= end and start <= until + _WAKE_SECONDS for since, until in self.when)


def strained_by(records: Iterable[CheckRecord], seen: Seen) -> Strained:
    over = strains(records)
    only_pressed = bool(over) and all(record.key == "cpuPressurePercent" for record in over)
    return Strained(tuple(record.reason for record in over), seen.pressed if only_pressed else ())


def missed_share(answered: float, scraped: float, expected: int) -> float:
    """Which share of its scrapes a target missed; one at the edge of the window may fall to either side."""
    failed = scraped - answered
    never = max(0.0, expected - 1 - scraped)
    return (failed + never) / max(1, expected)


async def check_strain(
    prometheus: Prometheus, limits: SelfCheck, soak: Stretch, intervals: ScrapeIntervals, seen: Seen
) -> list[CheckRecord]:
    """Judge every limit of strain over the soak."""
    seconds, end = soak.seconds, soak.end
    try:
        answered, scraped, lags, delays, writes, hosts = await asyncio.gather(
            prometheus.samples(f"sum_over_time(up[{seconds}s])", end),
            prometheus.samples(f"count_over_time(up[{seconds}s])", end),
            # One scrape more: what grew in the soak is counted from the last sample before it.
            prometheus.samples(LAG.replace("{w}", f"{seconds + intervals.bigfleet}s"), end),
            prometheus.samples(_worst_minute(RUN_DELAY, seconds), end),
            prometheus.samples(MUTATING.replace("{w}", f"{seconds + intervals.control_plane}s"), end),
            prometheus.samples(_worst_minute(PRESSURE, seconds), end),
        )
    except PrometheusUnreachable as error:
        here = [_pressure_here(limits, seen)] if seen.is_this_machine else []
        return [*unmeasured(limits, (key for key in _KEYS if not here or key != here[0].key), str(error)), *here]
    if PROMETHEUS_POD in seen.restarted_pods:
        blind = "Prometheus itself ended, so the scrapes that it missed say nothing"
        scrapes = check(limits, "missedScrapesFraction", "unmeasured", blind)
    else:
        missed = _missed(answered, scraped, seconds, intervals, seen.restarted_pods)
        words = "Prometheus missed {:.0%} of its scrapes; the limit is {:.0%}"
        scrapes = _worst(limits, "missedScrapesFraction", missed, words)
    late = "its event loop ran {:.2g} s late (p99); the limit is {:g} s"
    waited = "its threads together waited for a core for {:.0%} of the worst minute; the limit is {:.0%}"
    slow = "a write to its apiserver took {:.2g} s (p99); the limit is {:g} s"
    return [
        scrapes,
        _worst(limits, "eventLoopLagP99Seconds", ((_process(one.labels), one.value) for one in lags), late),
        _run_delay(limits, delays, waited),
        _pressure_here(limits, seen) if seen.is_this_machine else _pressure_elsewhere(limits, hosts),
        _worst(
            limits, "apiserverMutatingP99Seconds", ((one.labels.get("pod", "?"), one.value) for one in writes), slow
        ),
    ]


def _missed(
    answered: Sequence[Sample], scraped: Sequence[Sample], seconds: int, intervals: ScrapeIntervals, out: frozenset[str]
) -> Iterable[tuple[str, float]]:
    """Of the harness's own processes: what BigFleet's do not answer has gates of its own."""
    answers = {_target(sample): sample.value for sample in answered}
    for sample in scraped:
        if sample.labels.get("pod") not in out and sample.labels.get("metrics_port") in _HARNESS_PORTS:
            expected = seconds // intervals.seconds(sample.labels.get("job", ""))
            yield _process(sample.labels), missed_share(answers.get(_target(sample), 0.0), sample.value, expected)


def _target(sample: Sample) -> tuple[str, str]:
    return sample.labels.get("job", ""), sample.labels.get("instance", "")


def _process(labels: Mapping[str, str]) -> str:
    port, pod = labels.get("metrics_port", "metrics"), labels.get("pod", "?")
    return pod if port == "metrics" else f"{pod} ({port})"


def _worst(limits: SelfCheck, key: str, found: Iterable[tuple[str, float]], sentence: str) -> CheckRecord:
    """Judge the worst of what was measured; the sentence has a place for it and one for the limit."""
    known = [(where, value) for where, value in found if math.isfinite(value)]
    if not known:
        return check(limits, key, "unmeasured", "Prometheus has no value")
    where, value = max(known, key=lambda entry: entry[1])
    return judged(limits, key, value, f"{where}: {sentence.format(value, limit_of(limits, key))}")


def _run_delay(limits: SelfCheck, delays: Sequence[Sample], sentence: str) -> CheckRecord:
    if not delays:
        return check(limits, "runDelayFraction", "skipped", "this kernel does not count it (/proc/*/task/*/schedstat)")
    found = ((_process(one.labels), one.value) for one in delays)
    return _worst(limits, "runDelayFraction", found, sentence)


def _pressure_here(limits: SelfCheck, seen: Seen) -> CheckRecord:
    key, worst = "cpuPressurePercent", seen.pressure_percent
    if worst is None:
        return check(limits, key, "skipped", "this kernel does not count it (/proc/pressure/cpu)")
    limit = limits.cpu_pressure_percent
    return judged(
        limits, key, worst, f"cores were short for {worst:.0f} % of the worst minute; the limit is {limit:g} %"
    )


def _worst_minute(query: str, seconds: int) -> str:
    minute = min(WINDOW_SECONDS, seconds)
    return query.replace("{m}", f"{minute:g}").replace("{r}", f"{max(5, seconds - minute):g}")


def _pressure_elsewhere(limits: SelfCheck, hosts: Sequence[Sample]) -> CheckRecord:
    """Of the hosts that carry a KWOK cluster: on other hosts no load-driver counts it."""
    key = "cpuPressurePercent"
    if not hosts:
        return check(limits, key, "skipped", "no host of a KWOK cluster counts it (/proc/pressure/cpu)")
    found = ((f"the host of {host.labels.get('pod', '?')}", min(100.0, host.value)) for host in hosts)
    return _worst(limits, key, found, "its cores were short for {:.0f} % of the worst minute; the limit is {:g} %")

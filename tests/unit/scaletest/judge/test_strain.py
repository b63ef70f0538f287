"""How strained the machine was over the soak, and what that explains."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scaletest.errors import PrometheusUnreachable
from scaletest.exit_codes import ExitCode
from scaletest.judge.gates.gate import GateRecord, Reading, judge
from scaletest.judge.gates.windows import Stretch
from scaletest.judge.judging import Judgement
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.prometheus import Prometheus, Sample
from scaletest.judge.selfcheck.checks import CheckRecord, check, load_that_did_not_come, strains
from scaletest.judge.selfcheck.pressure import pressed_minutes, read_pressure, worst_percent
from scaletest.judge.selfcheck.strain import ScrapeIntervals, Seen, Strained, check_strain, missed_share, strained_by
from scaletest.model.documents.substrate import SelfCheck
from scaletest.report.screen.plain import check_lines
from tests.unit.gates import a_gate

LIMITS = SelfCheck()
OVER = check(LIMITS, "cpuPressurePercent", "over", "cores were short for 71 %", 71.0)
NO_LOAD = check(LIMITS, "loadDeliveredFraction", "over", "3 of 80 deletions came in time", 0.04)


class KnownAnswers(Prometheus):
    """Answers each query by the metric that it names."""

    def __init__(self, answers: dict[str, list[Sample]] | None) -> None:
        self._answers = answers

    async def samples(self, query: str, at: float | None = None) -> list[Sample]:
        if self._answers is None:
            raise PrometheusUnreachable(f"Prometheus is gone at {at}")
        return next((found for start, found in self._answers.items() if start in query), [])


def checked(
    up: dict[str, tuple[float, float]],
    lag: float = 0.1,
    write: float = 0.4,
    seen: Seen | None = None,
    hosts: dict[str, float] | None = None,
    delay: float = 0.02,
    port: str = "load-driver",
) -> dict[str, CheckRecord]:
    """Judge a soak of a minute in which each pod answered so many of so many scrapes."""
    labels = {pod: {"pod": pod, "job": "bigfleet", "instance": pod, "metrics_port": port} for pod in up}
    prometheus = KnownAnswers(
        {
            "sum_over_time(up": [Sample(labels[pod], answered) for pod, (answered, _) in up.items()],
            "count_over_time(up": [Sample(labels[pod], scraped) for pod, (_, scraped) in up.items()],
            "event_loop_lag": [
                Sample({"pod": "kwok-cluster-1", "metrics_port": "load-driver"}, lag),
                Sample({"pod": "quiet", "metrics_port": "operator"}, float("nan")),
            ],
            "run_delay": [Sample({"pod": "bigfleet-shard-0", "metrics_port": "metrics"}, delay)],
            "apiserver_request": [Sample({"pod": "kwok-cluster-0"}, write)],
            "cpu_waiting": [Sample({"pod": pod}, percent) for pod, percent in (hosts or {}).items()],
        }
    )
    found = asyncio.run(check_strain(prometheus, LIMITS, Stretch(0.0, 60.0), ScrapeIntervals(), seen or Seen()))
    return {record.key: record for record in found}


def test_a_harness_that_keeps_up_is_ok() -> None:
    records = checked({"shard": (12, 12)}, seen=Seen(pressure_percent=33.0))
    assert {record.verdict for record in records.values()} == {"ok"}
    assert strains(records.values()) == []


@pytest.mark.parametrize(
    ("answered", "scraped", "expected", "share"),
    [
        (12, 12, 12, 0.0),
        (11, 11, 12, 0.0),  # one at the edge of the window
        (11, 12, 12, 1 / 12),  # one that failed
        (10, 10, 12, 1 / 12),  # two that were never made
        (0, 12, 12, 1.0),
        (2, 2, 2, 0.0),
        (1, 1, 2, 0.0),
        (0, 0, 0, 0.0),
    ],
)
def test_missed_scrapes_are_those_that_failed_and_those_never_made(
    answered: float, scraped: float, expected: int, share: float
) -> None:
    assert missed_share(answered, scraped, expected) == pytest.approx(share)


def test_a_target_that_missed_too_many_scrapes_is_named() -> None:
    record = checked({"shard": (12, 12), "provider": (10, 12)})["missedScrapesFraction"]
    assert record.verdict == "over"
    assert "provider (load-driver): Prometheus missed 17% of its scrapes" in record.reason


def test_a_pod_that_restarted_is_left_to_its_own_gate() -> None:
    strain = Seen(restarts={"shard/shard": 1})
    record = checked({"shard": (2, 12), "provider": (12, 12)}, seen=strain)["missedScrapesFraction"]
    assert record.verdict == "ok"


def test_a_prometheus_that_ended_is_not_taken_for_an_overloaded_harness() -> None:
    records = checked({"shard": (8, 8)}, seen=Seen(restarts={"prometheus-0/prometheus": 1}))
    assert records["missedScrapesFraction"].verdict == "unmeasured"
    assert strains(records.values()) == []


def test_scrapes_that_bigfleet_does_not_answer_are_no_strain() -> None:
    record = checked({"shard": (2, 12)}, port="metrics")["missedScrapesFraction"]
    assert record.verdict == "unmeasured", "a shard that hangs must not pass for a busy machine"


def test_a_late_event_loop_and_a_slow_apiserver_are_named() -> None:
    records = checked({"shard": (12, 12)}, lag=1.5, write=2.5)
    assert "kwok-cluster-1 (load-driver): its event loop ran 1.5 s late" in records["eventLoopLagP99Seconds"].reason
    assert "kwok-cluster-0: a write to its apiserver took 2.5 s" in records["apiserverMutatingP99Seconds"].reason
    assert [record.key for record in strains(records.values())] == [
        "eventLoopLagP99Seconds",
        "apiserverMutatingP99Seconds",
    ]


def test_a_process_of_bigfleet_that_waits_for_a_core_is_strain() -> None:
    record = checked({"shard": (12, 12)}, delay=0.4)["runDelayFraction"]
    assert record.verdict == "over"
    assert record.reason.startswith(
        "bigfleet-shard-0: its threads together waited for a core for 40% of the worst minute"
    )


def test_minutes_under_pressure_are_known_by_their_time() -> None:
    busy = [(float(at), max(0.0, min(at, 180) - 60) * 0.9) for at in range(0, 301, 5)]
    [(start, end)] = pressed_minutes(busy, 60)
    assert 20 <= start <= 60
    assert 180 <= end <= 220
    assert pressed_minutes(busy, 95) == ()


def test_pressure_is_that_of_the_worst_minute() -> None:
    calm_then_busy = [(second, max(0.0, second - 60) * 0.9) for second in range(0, 121, 5)]
    assert worst_percent(calm_then_busy) == pytest.approx(90)
    assert worst_percent([(0.0, 0.0), (30.0, 24.0)]) == pytest.approx(80), "a shorter soak is one window"
    assert worst_percent([(0.0, 100.0)]) is None, "one look says nothing"
    # What was before the first look does not count.
    assert worst_percent([(0.0, 5000.0), (60.0, 5006.0)]) == pytest.approx(10)


def test_pressure_is_read_from_the_kernels_total(tmp_path: Path) -> None:
    source = tmp_path / "cpu"
    source.write_text("some avg10=1.00 avg60=2.00 avg300=3.00 total=2500000\nfull avg10=0.00 total=7\n")
    assert read_pressure(10.0, source) == (10.0, 2.5)
    assert read_pressure(10.0, tmp_path / "missing") is None


def test_pressure_over_the_limit_is_said_in_percent() -> None:
    strain = Seen(pressure_percent=75.0)
    record = checked({"shard": (12, 12)}, seen=strain)["cpuPressurePercent"]
    assert record.verdict == "over"
    assert "75 % of the worst minute" in record.reason


def test_pressure_of_other_machines_is_what_the_worst_of_them_counts() -> None:
    elsewhere = Seen(pressure_percent=99.0, is_this_machine=False)
    record = checked({"shard": (12, 12)}, seen=elsewhere, hosts={"kwok-cluster-0": 12.0, "kwok-cluster-7": 70.0})
    pressure = record["cpuPressurePercent"]
    assert (pressure.verdict, pressure.value) == ("over", 70.0)
    assert pressure.reason.startswith("the host of kwok-cluster-7: its cores were short for 70 % of the worst minute")


@pytest.mark.parametrize("is_this_machine", [True, False])
def test_pressure_that_nobody_can_read_is_skipped_and_says_so(is_this_machine: bool) -> None:
    record = checked({"shard": (12, 12)}, seen=Seen(is_this_machine=is_this_machine))["cpuPressurePercent"]
    assert record.verdict == "skipped"
    [kept_up, not_judged] = check_lines([replace(OVER, verdict="ok"), record])
    assert kept_up == "  ✓ the load came"
    assert not_judged.startswith("  - harness: CPU pressure is not judged: ")


def test_what_could_not_be_measured_keeps_a_run_from_passing() -> None:
    records = asyncio.run(check_strain(KnownAnswers(None), LIMITS, Stretch(0.0, 60.0), ScrapeIntervals(), Seen()))
    assert [record.verdict for record in records].count("unmeasured") == 4, "this machine's pressure needs nobody"
    assert {failure.exit_code for failure in Judgement([], records).failures()} == {5}


FAILED = judge(a_gate(strain="a process is late"), Reading(2.0), 60, 10)
CERTAIN = judge(a_gate(strain=""), Reading(2.0), 60, 10)
PASSED = judge(a_gate(strain="a process is late"), Reading(0.5), 60, 10)


def judgement(*gates: GateRecord, checks: list[CheckRecord], seen: Seen | None = None) -> Judgement:
    return Judgement(list(gates), checks, strained=strained_by(checks, seen or Seen()))


def test_a_pass_on_a_strained_machine_is_a_pass() -> None:
    assert judgement(PASSED, checks=[OVER]).outcome().passed
    assert check_lines([OVER]) == ["  ✓ the load came", "  · strained: cores were short for 71 %"]


def test_a_bar_that_strain_can_cause_is_void_only_on_a_strained_machine() -> None:
    strained = judgement(FAILED, checks=[OVER]).outcome()
    assert (strained.exit_code, strained.verdict) == (6, "void")
    assert "cores were short for 71 %" in strained.headline
    calm = judgement(FAILED, checks=[]).outcome()
    assert (calm.exit_code, calm.verdict) == (1, "failed")


def test_a_bar_that_strain_cannot_cause_fails_on_any_machine() -> None:
    both = judgement(FAILED, CERTAIN, checks=[OVER, NO_LOAD]).outcome()
    assert (both.exit_code, both.verdict) == (1, "failed")
    assert both.headline == "k: 2 > 1 (shard)"


def test_a_load_that_did_not_come_is_void_whatever_the_gates_say() -> None:
    for gate in (PASSED, FAILED):
        outcome = judgement(gate, checks=[NO_LOAD]).outcome()
        assert (outcome.exit_code, outcome.verdict) == (6, "void")
        assert outcome.headline == load_that_did_not_come([NO_LOAD])


def test_what_ended_the_run_comes_before_void() -> None:
    outcome = judgement(FAILED, checks=[NO_LOAD]).outcome()
    for code in (ExitCode.INTERRUPTED, ExitCode.CAP_REACHED, ExitCode.INSTALL_FAILED, ExitCode.NOT_STEADY):
        ended = RunOutcome([*outcome.failures, (code, "ended early")])
        assert (ended.exit_code, ended.verdict) == (code, "incomplete")


def test_strain_explains_what_happened_while_it_lasted() -> None:
    strained = strained_by([OVER], Seen(71.0, ((100.0, 160.0),)))
    assert strained == Strained(("cores were short for 71 %",), ((100.0, 160.0),))
    assert strained.at((150.0, 155.0))
    assert strained.at((185.0, 200.0)), "its wake counts"
    assert not strained.at((400.0, 460.0))
    assert strained.at(None), "of a figure over all of the soak nobody knows when it was"
    assert not Strained().at(None)
    late = check(LIMITS, "eventLoopLagP99Seconds", "over", "late", 3.0)
    assert strained_by([OVER, late], Seen(71.0, ((100.0, 160.0),))).at((400.0, 460.0))


def test_scrape_intervals_come_from_the_runs_values() -> None:
    assert ScrapeIntervals.of({}) == ScrapeIntervals(5, 30)
    assert ScrapeIntervals.of({"prometheus": {"scrapeSeconds": 15}}).seconds("bigfleet") == 15
    assert ScrapeIntervals(5, 30).seconds("control-plane") == 30

"""junit.xml, as a CI system reads it."""

import xml.etree.ElementTree as ElementTree

from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.judging import Judgement
from scaletest.judge.selfcheck.checks import check
from scaletest.model.documents.substrate import SelfCheck
from scaletest.report.junit import junit_xml
from tests.unit.gates import a_gate
from tests.unit.plans import smoke_plan

GATE = a_gate(title="a gate", bar=1.0)


def suite_of(judgement: Judgement, *others: tuple[ExitCode, str]) -> ElementTree.Element:
    facts = RunFacts(smoke_plan(), "run", seconds={"soak": 60.0}, judgement=judgement)
    outcome = judgement.outcome()
    for exit_code, sentence in others:
        outcome.add(exit_code, sentence)
    return ElementTree.fromstring(junit_xml(summarise(facts, outcome)))[0]


def counts(suite: ElementTree.Element) -> tuple[str | None, ...]:
    return tuple(suite.get(name) for name in ("tests", "failures", "errors", "skipped"))


def test_a_clean_run_has_no_failures() -> None:
    suite = suite_of(Judgement([judge(GATE, Reading(0.5), 60, 10)], []))
    assert counts(suite) == ("2", "0", "0", "0")


def test_a_failed_gate_is_a_failure_and_an_unmeasured_one_an_error() -> None:
    gates = [judge(GATE, Reading(2.0), 60, 10), judge(GATE, Reading(None), 60, 10)]
    assert counts(suite_of(Judgement(gates, []))) == ("3", "1", "1", "0")


def test_a_load_that_did_not_come_and_a_run_that_ended_early_are_errors() -> None:
    over = check(SelfCheck(), "loadDeliveredFraction", "over", "12 of 80 deletions came in time", 0.15)
    suite = suite_of(Judgement([], [over]), (ExitCode.INTERRUPTED, "interrupted \x07"))
    assert counts(suite) == ("2", "0", "2", "0")
    messages = [error.get("message") for error in suite.iter("error")]
    assert messages == ["interrupted ", "12 of 80 deletions came in time"]

"""The verdicts for people, for machines, and for whatever reads JUnit."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

import msgspec

from bigfleet.provider.conformance.suite import Check
from bigfleet.provider.conformance.verdicts import CheckOutcome, Result, SuiteReport

_SIGNS = {CheckOutcome.PASSED: "✓", CheckOutcome.FAILED: "✗", CheckOutcome.SKIPPED: "–", CheckOutcome.UNJUDGED: "?"}
_NAME_WIDTH = 42


def line(result: Result) -> str:
    """One check: a line, and for one that went wrong what the rule is and what the provider said."""
    head = f"{_SIGNS[result.outcome]} {result.name:<{_NAME_WIDTH}} {result.seconds:6.2f} s"
    if result.outcome is CheckOutcome.PASSED:
        return head
    if result.outcome is CheckOutcome.SKIPPED:
        return f"{head}  {result.reason}"
    details = [result.reason, f"rule: {result.rule}", *(f"  {answer}" for answer in result.answers)]
    return "\n".join([head, *(f"    {detail}" for detail in details)])


def closing(report: SuiteReport) -> str:
    """What the whole came to."""
    counts = ", ".join(f"{report.count(outcome)} {outcome}" for outcome in CheckOutcome if report.count(outcome))
    lines = [f"{len(report.results)} checks: {counts}", f"machines used: {', '.join(report.machines) or 'none'}"]
    if report.leftovers:
        lines += ["not as it was found:", *(f"  {leftover}" for leftover in report.leftovers)]
    elif report.machines:
        lines.append("all are as they were found")
    return "\n".join(lines)


def menu(checks: Iterable[Check]) -> str:
    """All checks with their rules."""
    return "\n".join(f"{check.area:<12} {check.name:<{_NAME_WIDTH}} {check.rule}" for check in checks)


def as_json(report: SuiteReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def as_junit(report: SuiteReport) -> bytes:
    """One suite, one case per check; what could not be judged is an error, as JUnit calls it."""
    suite = ElementTree.Element(
        "testsuite",
        name="bigfleet provider conformance",
        hostname=report.target,
        tests=str(len(report.results)),
        failures=str(report.count(CheckOutcome.FAILED)),
        errors=str(report.count(CheckOutcome.UNJUDGED)),
        skipped=str(report.count(CheckOutcome.SKIPPED)),
        time=f"{sum(result.seconds for result in report.results):.3f}",
    )
    elements = {CheckOutcome.FAILED: "failure", CheckOutcome.UNJUDGED: "error", CheckOutcome.SKIPPED: "skipped"}
    for result in report.results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"conformance.{result.area}", name=result.name, time=f"{result.seconds:.3f}"
        )
        if result.outcome in elements:
            verdict = ElementTree.SubElement(case, elements[result.outcome], message=_legal(result.reason))
            verdict.text = _legal("\n".join([result.rule, *result.answers]))
    whole = ElementTree.Element("testsuites")
    whole.append(suite)
    ElementTree.indent(whole)
    return bytes(ElementTree.tostring(whole, encoding="utf-8", xml_declaration=True))


def _legal(text: str) -> str:
    """XML 1.0 knows no control characters but tab and the line ends."""
    return "".join(letter if letter in "\t\n\r" or letter >= " " else "\N{REPLACEMENT CHARACTER}" for letter in text)

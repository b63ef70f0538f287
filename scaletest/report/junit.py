"""junit.xml: the verdict for CI systems. A case for the run itself, each gate, and each limit of the self-check."""

import xml.etree.ElementTree as ET

from scaletest.judge.summary import Summary

_ELEMENTS = {"fail": "failure", "no-data": "error", "saturated": "error", "skipped": "skipped"}
_CHECK_ELEMENTS = {"over": "error", "unmeasured": "error", "skipped": "skipped"}
# These exit codes have cases of their own: a gate's, or the self-check's.
_JUDGED = (1, 5, 6)


def junit_xml(summary: Summary) -> str:
    """The document. A failed gate is a failure; what could not be measured is an error."""
    seconds = sum(summary.seconds.values())
    suite = ET.Element("testsuite", name=f"scaletest {summary.profile}", time=f"{seconds:.3f}")
    properties = ET.SubElement(suite, "properties")
    told = {
        "runId": summary.run_id,
        "substrate": summary.substrate,
        "verdict": summary.verdict,
        "exitCode": str(summary.exit_code),
        "seed": str(summary.seed),
    }
    for name, value in told.items():
        ET.SubElement(properties, "property", name=name, value=value)
    whole = _case(suite, "run", "the run comes to its end", seconds)
    ended = [failure for failure in summary.failures if failure.exit_code not in _JUDGED]
    if ended:
        _result(whole, "error", "\n".join(failure.reason for failure in ended))
    for gate in summary.gates:
        case = _case(suite, "gates", gate.title)
        if element := _ELEMENTS.get(gate.verdict):
            _result(case, element, f"{gate.verdict}: {gate.reason}")
        ET.SubElement(case, "system-out").text = gate.query
    for check in summary.self_check:
        case = _case(suite, "selfCheck", check.title)
        if element := _CHECK_ELEMENTS.get(check.verdict):
            _result(case, element, check.reason)
    for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{element}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, group: str, name: str, seconds: float = 0.0) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=f"scaletest.{group}", name=name, time=f"{seconds:.3f}")


def _result(case: ET.Element, element: str, message: str) -> None:
    ET.SubElement(case, element, message=_printable(message))


def _printable(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")

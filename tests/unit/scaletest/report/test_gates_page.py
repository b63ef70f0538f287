"""docs/gates.md is what a run is judged by."""

from scaletest.judge.gates.listing import gates_for
from scaletest.report.gates_page import STORED, dev_plan, gates_page
from tests.smoke.mistakes.page import catches


def test_the_stored_page_is_current() -> None:
    assert STORED.read_text() == gates_page(dev_plan(), catches()), "`make gates-page` refreshes it"


def test_every_gate_is_on_it_with_its_bar_and_whether_strain_can_cause_it() -> None:
    page = STORED.read_text()
    for gate in gates_for(dev_plan()):
        entry = page.partition(f"## {gate.title}\n")[2].partition("\n## ")[0]
        assert f"`{gate.key}`" in entry
        assert gate.meaning in entry
        assert f"| strain | {gate.strain or 'cannot cause it'} |" in entry
        assert (f"| witness | {gate.witness} |" in entry) == bool(gate.witness)

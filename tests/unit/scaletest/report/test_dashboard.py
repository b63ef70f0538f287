"""The dashboard shows what a run is judged by, and the stored one is current."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from scaletest.judge.gates.listing import plain_gates
from scaletest.judge.gates.measures import WorstMember
from scaletest.report.dashboard.panels import UID, dashboard, queries_of, with_dashboard
from scaletest.report.dashboard.stored import STORED, ladder_plan
from tests.unit.plans import shipped_plan, smoke_plan


def test_the_stored_dashboard_is_current() -> None:
    assert json.loads(STORED.read_text()) == dashboard(ladder_plan()), "`make dashboards` refreshes it"


def test_every_gate_has_its_query_and_bar_on_it() -> None:
    plan = smoke_plan()
    document = dashboard(plan)
    stats = {panel["title"]: panel for panel in document["panels"] if panel["type"] == "stat"}
    for gate in plain_gates(plan):
        panel = stats[gate.title]
        query = gate.windowed(plan.window_seconds)
        worst = f"{'min' if gate.least else 'max'}({query})" if isinstance(gate.measure, WorstMember) else query
        assert [target["expr"] for target in panel["targets"]] == [worst]
        bars = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert any(bar is not None and abs(bar - gate.bar) < 1e-3 for bar in bars)


def test_a_bar_that_is_switched_off_is_not_shown() -> None:
    plan = smoke_plan()
    slo = plan.profile.slo.model_copy(update={"bootstrap_success_ratio": None})
    without = dashboard(replace(plan, profile=plan.profile.model_copy(update={"slo": slo})))
    assert "bootstraps that succeed" not in {panel["title"] for panel in without["panels"]}


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    document = dashboard(smoke_plan())
    assert document["uid"] == UID
    assert [number for number, times in Counter(panel["id"] for panel in document["panels"]).items() if times > 1] == []
    cells = Counter(
        (x, y)
        for panel in document["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) < 24


def test_no_window_is_left_open() -> None:
    for title, query in queries_of(dashboard(smoke_plan())):
        assert "{w}" not in query, title


def test_a_run_provisions_it_where_there_is_a_grafana() -> None:
    cloud = shipped_plan("50k", "example-fat-host")
    values: dict[str, Any] = with_dashboard(cloud, cloud.values("run"))
    assert json.loads(values["grafana"]["dashboards"][UID]) == dashboard(cloud)
    here = smoke_plan()
    assert with_dashboard(here, here.values("run")) == here.values("run")


def test_the_verdict_panel_counts_every_gate_and_takes_no_nan_for_a_pass() -> None:
    plan = smoke_plan()
    panel = next(panel for panel in dashboard(plan)["panels"] if panel["id"] == 99)
    [target] = panel["targets"]
    assert target["expr"].count("> -Inf") == len(plain_gates(plan)) + 1, "the reclaims, too"
    [mapping] = panel["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"] == {"-1": {"text": "WAIT"}, "0": {"text": "PASS"}}

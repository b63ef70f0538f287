"""What a run leaves for people and for CI systems: plan.json, the dashboard, junit.xml and report.html."""

from typing import Any

from scaletest.model.plan import Plan
from scaletest.report.dashboard import grafana_hint, with_dashboard
from scaletest.report.html import report_html
from scaletest.report.junit import junit_xml
from scaletest.report.plan import plan_document, plan_lines
from scaletest.run.steps.guard import Caps


class RunPages:
    """`scaletest.run.lifecycle.Pages`."""

    def values(self, plan: Plan, values: dict[str, Any]) -> dict[str, Any]:
        return with_dashboard(plan, values)

    def plan(self, plan: Plan, caps: Caps, run_id: str) -> dict[str, Any]:
        return plan_document(plan, caps, run_id)

    def where_to_look(self, namespace: str) -> str:
        return grafana_hint(namespace)

    def of_summary(self, plan: Plan, summary: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, str]:
        return {"junit.xml": junit_xml(summary), "report.html": report_html(summary, events, plan_lines(plan))}

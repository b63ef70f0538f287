"""What a run leaves for people and for CI systems: plan.json, the dashboard, junit.xml and report.html."""

from scaletest.judge.summary import Summary
from scaletest.model.json_types import Json
from scaletest.model.plan import Plan
from scaletest.report.dashboard.panels import grafana_hint, with_dashboard
from scaletest.report.junit import junit_xml
from scaletest.report.page.html import report_html
from scaletest.report.plan import PlanDocument, plan_document, plan_lines
from scaletest.run.journal import DiaryLine
from scaletest.run.steps.guard import Caps


class RunPages:
    """`scaletest.run.lifecycle.Pages`."""

    def values(self, plan: Plan, values: dict[str, Json]) -> dict[str, Json]:
        return with_dashboard(plan, values)

    def plan(self, plan: Plan, caps: Caps, run_id: str) -> PlanDocument:
        return plan_document(plan, caps, run_id)

    def where_to_look(self, namespace: str) -> str:
        return grafana_hint(namespace)

    def of_summary(self, plan: Plan, summary: Summary, events: list[DiaryLine]) -> dict[str, str]:
        return {"junit.xml": junit_xml(summary), "report.html": report_html(summary, events, plan_lines(plan))}

"""report.html: one page that explains a run to a reader who did not watch it. No script, nothing is fetched."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from scaletest.judge.summary import Summary
from scaletest.model.counting import counted, noun
from scaletest.model.documents.durations import format_duration
from scaletest.report.margins import MARKS, margin_of, percent
from scaletest.report.page.charts import gate_curve, phase_strip
from scaletest.report.page.style import STYLE
from scaletest.report.screen.plain import headline, is_quiet, price
from scaletest.run.journal import DiaryLine

_CHECK_MARKS = {"ok": "✓", "over": "✗", "unmeasured": "?", "skipped": "–"}
# The diary of a long soak is thinned on the page; events.jsonl has it all.
_MOST_EVENTS = 400


def report_html(summary: Summary, events: Sequence[DiaryLine], plan: Sequence[str]) -> str:
    """The page: verdict first, then gates, then what lies behind them."""
    title = f"{summary.run_id}: {headline(summary)}"
    parts = [
        *_head(summary),
        *_gates(summary),
        *_self_check(summary),
        *_timeline(summary, events),
        *_hops(summary),
        *_plan(summary, plan),
        *_figures(summary),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _head(summary: Summary) -> Iterator[str]:
    scale = summary.scale
    judged = [gate for gate in summary.gates if gate.verdict != "skipped"]
    passed = sum(gate.verdict == "pass" for gate in judged)
    yield (
        f'<header class="{escape(summary.verdict)}"><p class="verdict">{escape(headline(summary))}</p>'
        f"<h1>{escape(summary.profile)} on {escape(summary.substrate)}</h1>"
        f'<p class="dim">{escape(summary.run_id)}</p></header>'
    )
    if summary.failures:
        reasons = "".join(f"<li>{escape(failure.reason)}</li>" for failure in summary.failures)
        yield f'<ul class="reasons">{reasons}</ul>'
    tiles = {
        "gates passed": f"{passed} of {len(judged)}",
        noun(scale.total_pods, "Pod"): f"{scale.total_pods:,}",
        noun(scale.kwok_clusters, "cluster"): f"{scale.kwok_clusters:,}",
        f"{noun(scale.machines_demanded, 'machine')} needed": f"{scale.machines_demanded:,}",
        noun(scale.shards, "shard"): f"{scale.shards:,}",
        "start to steady": _seconds(sum(summary.seconds.get(step, 0.0) for step in ("host", "install", "settle"))),
        "soak": _seconds(summary.seconds.get("soak", 0.0)),
        "cost": price(summary),
    }
    yield _tiles(tiles)


def _tiles(tiles: dict[str, str]) -> str:
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in tiles.items())
    return f'<section class="tiles">{cells}</section>'


def _gates(summary: Summary) -> Iterator[str]:
    if not summary.gates:
        return
    yield "<h2>Gates</h2><table><thead><tr><th></th><th>gate</th><th>value</th><th>bar</th><th>margin</th>"
    yield "<th>observations</th><th>through the soak</th></tr></thead><tbody>"
    for gate in summary.gates:
        points = [
            (sample.seconds, sample.gates[gate.key]) for sample in summary.gate_samples if gate.key in sample.gates
        ]
        value = gate.value
        margin = None if value is None else margin_of(value, gate.bar, gate.least)
        note = "" if gate.verdict == "pass" else f'<br><span class="note">{escape(gate.reason)}</span>'
        yield (
            f'<tr class="{gate.verdict}"><td class="mark">{MARKS[gate.verdict]}</td>'
            f'<td title="{escape(gate.query)}">{escape(gate.title)}{note}</td>'
            f"<td>{_number(value)}</td><td>{'≥' if gate.least else '≤'} {_number(gate.bar)} "
            f"{escape(gate.unit)}</td>"
            f"<td>{percent(margin)}</td><td>{'' if gate.observations is None else gate.observations}</td>"
            f"<td>{gate_curve(points, gate.bar, gate.least, gate.title)}</td></tr>"
        )
    yield "</tbody></table>"
    yield '<p class="dim">The dashed line is the bar. Hover over a gate for its query.</p>'


def _self_check(summary: Summary) -> Iterator[str]:
    if not summary.self_check:
        return
    yield "<h2>Did the load come, and was the machine strained?</h2><table><tbody>"
    for check in summary.self_check:
        yield (
            f'<tr class="{check.verdict}"><td class="mark">{_CHECK_MARKS[check.verdict]}</td>'
            f"<td>{escape(check.title)}</td><td>{_number(check.value)}</td>"
            f"<td>{'≥' if check.least else '≤'} {_number(check.limit)} {escape(check.unit)}</td>"
            f"<td>{escape(check.reason)}</td></tr>"
        )
    yield "</tbody></table>"


def _timeline(summary: Summary, events: Sequence[DiaryLine]) -> Iterator[str]:
    yield "<h2>Timeline</h2>"
    yield phase_strip(summary.seconds)
    shown = [event for event in events if not is_quiet(event["phase"])]
    every = max(1, -(-len(shown) // _MOST_EVENTS))
    yield f"<details><summary>{counted(len(shown), 'event')}</summary><table class='events'><tbody>"
    for event in shown[::every]:
        clock = datetime.fromtimestamp(event["time"], UTC).strftime("%H:%M:%S")
        yield (
            f"<tr><td>{clock}</td><td>{_seconds(event['elapsed'])}</td><td>{escape(event['phase'])}</td>"
            f"<td>{escape(event['message'])}</td></tr>"
        )
    yield "</tbody></table></details>"


def _hops(summary: Summary) -> Iterator[str]:
    if not summary.hops:
        return
    yield "<h2>One Pod's way</h2><table><tbody>"
    for hop in summary.hops:
        verdict, mark = ("pass", "✓") if hop.passed else ("fail", "✗")
        yield (
            f'<tr class="{verdict}"><td class="mark">{mark}</td><td>{hop.row}</td>'
            f"<td>{escape(hop.name)}</td><td>{escape(hop.actor)}</td><td>{_number(hop.passed)}</td></tr>"
        )
    yield "</tbody></table>"


def _plan(summary: Summary, plan: Iterable[str]) -> Iterator[str]:
    yield f"<h2>Plan</h2><pre>{escape(chr(10).join(plan))}</pre>"
    hosts, hours = counted(summary.scale.hosts, "host"), summary.cost.hours
    yield f"<p>Cost: {escape(price(summary))}, for {hosts} and {hours:g} h of soak.</p>"


def _figures(summary: Summary) -> Iterator[str]:
    yield "<h2>Every figure</h2><details><summary>for the record; −1 was not measured</summary><table><tbody>"
    for name, value in sorted(summary.metrics.items()):
        yield f"<tr><td>{escape(name)}</td><td>{_number(value)}</td></tr>"
    yield "</tbody></table></details>"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def _seconds(seconds: float) -> str:
    return format_duration(seconds)

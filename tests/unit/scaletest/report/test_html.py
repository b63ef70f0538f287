"""report.html: verdict first, self-contained, and safe whatever a run says."""

import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import pytest

from scaletest.judge.summary import Summary
from scaletest.report.page.charts import gate_curve, phase_strip
from scaletest.report.page.html import report_html
from scaletest.run.journal import DiaryLine
from tests.unit.scaletest.model.test_schema import real_summary

EVENTS: list[DiaryLine] = [
    {"time": 1.0, "elapsed": 0.5, "phase": "host", "message": "up <b>"},
    {"time": 2.0, "elapsed": 1.5, "phase": "gate", "message": "in the table already"},
]


class Outline(HTMLParser):
    """What a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag != "meta" and tag not in ("br",):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def page_of(**changes: Any) -> Outline:
    return Outline(
        report_html(Summary.read(json.dumps({**real_summary(), **changes})), EVENTS, ["profile  smoke & <more>"])
    )


def test_the_verdict_comes_first_and_every_gate_follows() -> None:
    page = page_of()
    words = [word for word in page.words if word]
    assert "NOT PASSED (exit code 5)" in words
    titles = [gate["title"] for gate in real_summary()["gates"]]
    assert words.index("NOT PASSED (exit code 5)") < words.index("Gates") < words.index(titles[0])
    assert set(titles) <= set(words)


def test_one_of_a_thing_is_called_so() -> None:
    one = {"totalPods": 1, "kwokClusters": 1, "machinesDemanded": 1, "shards": 1, "hosts": 1}
    words = page_of(scale=real_summary()["scale"] | one).words
    assert {"Pod", "cluster", "machine needed", "shard", "1 event"} <= set(words)
    assert any(", for 1 host and" in word for word in words)
    several = page_of(scale=real_summary()["scale"] | dict.fromkeys(one, 2)).words
    assert {"Pods", "clusters", "machines needed", "shards"} <= set(several)


def test_nothing_is_fetched_and_nothing_is_executed() -> None:
    page = page_of()
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert page.addresses == []


def test_what_a_run_says_is_text_and_never_markup() -> None:
    page = page_of(profile="<script>alert(1)</script>")
    assert "script" not in page.tags
    assert "up <b>" in page.words
    assert "profile  smoke & <more>" in page.words
    assert "in the table already" not in page.words


def test_a_run_that_never_soaked_has_a_page_too() -> None:
    page = page_of(gates=[], selfCheck=[], gateSamples=[], hops=[], seconds={})
    assert "Timeline" in page.words


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [1.0, 9.0, 2.0], [5.0, 5.0]])
def test_a_curve_stays_within_its_picture(values: list[float], least: bool) -> None:
    points = [(15.0 * number, value) for number, value in enumerate(values)]
    svg = ElementTree.fromstring(gate_curve(points, 5.0, least, "a < gate"))
    [curve] = svg.iter("polyline")
    places = [tuple(map(float, place.split(","))) for place in (curve.get("points") or "").split()]
    assert len(places) == len(values)
    assert all(0 <= x <= 220 and 0 <= y <= 40 for x, y in places)
    missed = sum(value < 5 if least else value > 5 for value in values)
    assert len(list(svg.iter("circle"))) == missed


def test_without_values_there_is_no_curve() -> None:
    assert gate_curve([], 5.0, False, "a gate") == ""


def test_the_steps_fill_their_strip() -> None:
    svg = ElementTree.fromstring(phase_strip({"install": 30.0, "soak": 60.0}))
    widths = [float(rect.get("width") or 0) for rect in svg.iter("rect")]
    assert widths == [300.0, 600.0]

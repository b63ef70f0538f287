"""How growth is told: the exponent of a curve, the shapes that are measured, and the picture of them."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench.engine.fleets import SyntheticFleet
from tests.bench.engine.growth import CASES, FIGURES, PICTURE, exponent, redraw, shapes
from tests.bench.engine.growth_picture import draw


@pytest.mark.parametrize(("power", "wanted"), [(0.0, 0.0), (1.0, 1.0), (1.5, 1.5)])
def test_the_exponent_of_a_power_is_its_power(power: float, wanted: float) -> None:
    assert exponent([(n, 3.0 * n**power) for n in (10, 100, 1_000)]) == pytest.approx(wanted)


def test_only_one_thing_grows_at_a_time() -> None:
    by_axis: dict[str, set[tuple[int, ...]]] = {}
    for axis, number, shape in shapes():
        counts = {"machines": shape.machines, "clusters": shape.clusters, "need rows": shape.need_rows}
        assert counts.pop(axis) == pytest.approx(number, rel=0.02)
        by_axis.setdefault(axis, set()).add((*counts.values(),))
    assert {axis: len(fixed) for axis, fixed in by_axis.items() if axis != "clusters"} == {
        "machines": 1,
        "need rows": 1,
    }
    assert {machines for machines, _ in by_axis["clusters"]} == {100_000}


def test_every_shape_that_is_measured_has_room_for_its_plain_rows() -> None:
    for _, _, shape in shapes():
        assert len(SyntheticFleet(shape).demand.rollup(0)) == shape.rows


def test_the_picture_is_svg_with_a_line_for_each_case_and_its_growth() -> None:
    points = [
        {"n": n, "machines": n, "clusters": 50, "need_rows": 5_000, "ms": {"steady": 0.2, "cold": n / 1000}}
        for n in (1_000, 10_000, 100_000)
    ]
    svg = draw({"machines": points}, {"machines": {"steady": 0.0, "cold": 1.0}})
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"machines", "50 clusters, 5K need rows", "steady 0.0", "cold 1.0", "1K", "100K", "0.1 ms"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_the_picture_in_the_docs_is_that_of_the_stored_figures(tmp_path: Path) -> None:
    fresh = tmp_path / "growth.svg"
    redraw(FIGURES, fresh)
    assert fresh.read_text() == PICTURE.read_text()
    stored = json.loads(FIGURES.read_text())
    assert all(exponents.keys() == set(CASES) for exponents in stored["exponents"].values())

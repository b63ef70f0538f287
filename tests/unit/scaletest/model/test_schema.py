"""The JSON Schemas say what the models say, and the checked-in ones are current."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, SoakSample, summarise
from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.gates.listing import all_gates
from scaletest.judge.gates.windows import SoakWindow
from scaletest.judge.hops import HOPS, HopReading
from scaletest.judge.judging import Judgement, Soaked
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.selfcheck.checks import check
from scaletest.judge.selfcheck.strain import Seen
from scaletest.judge.summary import Summary
from scaletest.model.documents.base import Document
from scaletest.model.documents.catalog import Catalog
from scaletest.model.documents.profile import Profile
from scaletest.model.documents.substrate import SelfCheck, Substrate
from scaletest.model.files.reading import MODELS
from scaletest.model.files.schema import DIALECT, SchemaNode, json_schema, shape_of
from scaletest.project import PROJECT
from tests.unit.plans import smoke_plan

DOCUMENTS: dict[str, Any] = {**MODELS, "summary": Summary}


def objects(schema: object) -> list[dict[str, Any]]:
    """Every map with fields in a schema."""
    if isinstance(schema, list):
        return [found for entry in schema for found in objects(entry)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" else []
    return here + [found for entry in schema.values() for found in objects(entry)]


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_checked_in_schema_is_current(kind: str) -> None:
    stored = Path(PROJECT / "docs" / "schemas" / f"{kind}.schema.json")
    assert json.loads(stored.read_text()) == json_schema(DOCUMENTS[kind]), "`make schemas` refreshes docs/schemas"


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_schema_is_strict_named_and_described(kind: str) -> None:
    schema = json_schema(DOCUMENTS[kind])
    assert schema["$schema"] == DIALECT
    assert schema["title"] == kind.capitalize()
    for part in objects(schema):
        assert part["additionalProperties"] is False, part["title"]
        assert part["description"], part["title"]
        for name, field in part["properties"].items():
            assert "_" not in name
            assert "title" not in field, "made-up titles only repeat the name"


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_field_says_what_it_is_for(kind: str) -> None:
    # A field that is described in the words of its own model only refers to it.
    silent = [
        f"{part['title']}.{name}"
        for part in objects(json_schema(DOCUMENTS[kind]))
        for name, field in part["properties"].items()
        if not {"description", "const", "$ref"} & field.keys()
    ]
    assert silent == [], "write a docstring under the field"


def test_the_shipped_models_keep_their_field_names_in_yaml() -> None:
    assert {"apiVersion", "kind", "scale", "loadProfile", "slo"} <= shape_of(Profile).fields().keys()
    host = shape_of(Substrate).at(("host",))
    assert host is not None
    assert {"vCPU", "memoryGiB"} == host.fields().keys()
    assert {"archetypes", "demandArchetypes", "seedArchetypes"} == shape_of(Catalog).fields().keys()


class Inner(Document):
    """Inside."""

    size: Annotated[float, Field(ge=0, le=1)] = 0


class Outer(Document):
    """Outside."""

    number: Annotated[int, Field(gt=2)]
    choice: Literal["a", "b"] | None = None
    flag: bool | Annotated[int, Field(ge=1, lt=5)] = True
    inners: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = {}  # noqa: RUF012
    pair: tuple[int, str] = (1, "")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("number",), "a whole number above 2"),
        (("choice",), "a or b, or null"),
        (("flag",), "true or false or a whole number of at least 1 and below 5"),
        (("inners",), "a list"),
        (("inners", 7), "a map of fields"),
        (("inners", 7, "size"), "a number from 0 to 1"),
        (("byName", "any", "size"), "a number from 0 to 1"),
        (("pair", 1), "text"),
    ],
)
def test_what_a_schema_allows_is_told_in_words(path: tuple[str | int, ...], words: str) -> None:
    place = shape_of(Outer).at(path)
    assert isinstance(place, SchemaNode)
    assert place.words() == words


@pytest.mark.parametrize("path", [("nothing",), ("number", "deeper"), ("inners", "name"), ("inners", 0, "other")])
def test_a_schema_says_nothing_about_places_that_it_does_not_have(path: tuple[str | int, ...]) -> None:
    assert shape_of(Outer).at(path) is None


def test_a_schema_knows_where_a_field_belongs() -> None:
    assert list(shape_of(Outer).holders("size")) == [("inners",)]
    assert list(shape_of(Outer).holders("number")) == [()]


def real_summary() -> dict[str, Any]:
    plan = smoke_plan()
    facts = RunFacts(plan, "20261116-120000-smoke", seconds={"settle": 40.5}, ramp_seconds=40.5)
    facts.soak_start = 1.5
    facts.soaked = Soaked(SoakWindow(1.5, 61.5), Reading(0), Seen(71.5, ((1.5, 61.5),)))
    readings = [Reading(None), Reading(1.0, 50, 300.0)]
    facts.judgement = Judgement(
        [judge(gate, readings[i % 2], 60, 10) for i, gate in enumerate(all_gates(plan))],
        [
            check(SelfCheck(), "cpuPressurePercent", "over", "cores were short", 71.5),
            check(SelfCheck(), "eventLoopLagP99Seconds", "unmeasured", "no value"),
        ],
    )
    facts.samples = [SoakSample(15.0, {"shardShortfalls": 0.0})]
    facts.hops = [HopReading(hop, None if hop.row % 2 else 3.0, answers=True) for hop in HOPS]
    facts.informational = {"machinesLost": 17.0}
    facts.snapshot = {"blocks": 1, "series": 10, "samples": 1000, "bytes": 4096}
    outcome = RunOutcome()
    outcome.add(ExitCode.UNMEASURED, "loadgenPodsActive: there is no value for it")
    return summarise(facts, outcome).document()


@pytest.mark.parametrize("early", [False, True], ids=["a whole run", "a run that never soaked"])
def test_a_real_summary_is_what_its_schema_says(early: bool) -> None:
    summary = summarise(RunFacts(smoke_plan(), "run"), RunOutcome()).document() if early else real_summary()
    written = json.dumps(summary, allow_nan=False)
    assert Summary.read(written).document() == summary


def test_a_summary_from_before_it_had_a_version_is_read() -> None:
    summary = real_summary()
    for added in ("apiVersion", "kind", "strained", "ledger"):
        del summary[added]
    for gate in summary["gates"]:
        for added in ("unit", "component", "source", "window", "strainable"):
            del gate[added]
        gate["bound"] = gate.pop("bar")
    for one in summary["selfCheck"]:
        for added in ("about", "unit", "least"):
            del one[added]
    read = Summary.read(json.dumps(summary))
    assert read.exit_code == 5
    assert [gate.bar for gate in read.gates] == [gate["bound"] for gate in summary["gates"]]


def test_a_summary_of_another_version_is_refused_by_its_field() -> None:
    with pytest.raises(ValueError, match="apiVersion"):
        Summary.read(json.dumps(real_summary() | {"apiVersion": "bigfleet.io/scaletest/v9"}))


@pytest.mark.parametrize(
    ("key", "value"), [("passed", "yes"), ("exitCode", None), ("scale", {}), ("unknown", 1), ("metrics", {"a": "b"})]
)
def test_the_summary_model_is_strict(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        Summary.read(json.dumps({**real_summary(), key: value}))


def test_typed_dicts_have_schemas_too() -> None:
    class Little(TypedDict):
        """Little."""

        number: int

    assert json_schema(Little)["properties"] == {"number": {"type": "integer"}}

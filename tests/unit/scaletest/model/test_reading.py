"""A wrong document is answered with file, line, column, field, what is allowed and what was probably meant."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

import pytest
from pydantic import BeforeValidator, Field, model_validator

from scaletest.errors import UsageError
from scaletest.model.documents.base import Document
from scaletest.model.files.explaining import validate
from scaletest.model.files.problems import nearest, shown, spelled
from scaletest.model.files.reading import InvalidDocument, check_document, read_profile, read_substrate
from scaletest.model.files.yamldoc import read_yaml
from scaletest.model.geometry import derive_geometry
from scaletest.project import PROFILES

SMOKE = (PROFILES / "smoke.yaml").read_text()
HEAD = "apiVersion: bigfleet.io/scaletest/v1\nkind: Profile\n"


class Part(Document):
    """One of many."""

    name: Annotated[str, Field(min_length=1, max_length=5)]
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class Sample(Document):
    """Every kind of field that a document may have."""

    count: Annotated[int, Field(gt=0)] = 1
    bounded: Annotated[int, Field(gt=0, le=10)] = 1
    ratio: Annotated[float, Field(ge=0)] = 0.0
    between: Annotated[float, Field(gt=0, lt=1)] = 0.5
    on_top: bool = False
    title: str = ""
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    storage: Literal["etcd", "kine"] = "etcd"
    members: Literal[1, 3] = 1
    optional: Annotated[float, Field(gt=0)] | None = None
    either: bool | Annotated[float, Field(ge=0, le=1)] = False
    part_or_name: Part | str = ""
    part: Part | None = None
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=2)] = (Part(name="a"),)
    pair: tuple[int, int] = (1, 2)
    labels: dict[Annotated[str, Field(pattern="^[a-z]+$")], str] = {}  # noqa: RUF012
    quantity: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)] = "1"

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.count > self.bounded * 100:
            raise ValueError("count is too much for bounded")
        if self.title == "two":
            raise ValueError("parts[0].name: must not be that\nlabels: nor these")
        return self


def problems(text: str) -> list[str]:
    document = read_yaml(text)
    assert document.root is not None
    model, faults = validate(document.root, Sample)
    assert (model is None) == bool(faults)
    return [fault.in_file("f") for fault in faults]


def refusal(path: Path, text: str) -> InvalidDocument:
    path.write_text(text)
    with pytest.raises(InvalidDocument) as caught:
        read_profile(str(path))
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count: 0", "f:1:8: count: must be above 0, got 0"),
        ("bounded: 11", "f:1:10: bounded: must be from 1 to 10, got 11"),
        ("ratio: -0.5", "f:1:8: ratio: must be at least 0, got -0.5"),
        ("between: 1", "f:1:10: between: must be above 0 and below 1, got 1"),
        ("optional: 0", "f:1:11: optional: must be above 0, got 0"),
        ("count: 2.5", "f:1:8: count: must be a whole number above 0, got 2.5"),
        ('count: "5"', 'f:1:8: count: must be a whole number above 0, got the text "5"; remove the quotes'),
        ("count: 5e3", "f:1:8: count: must be a whole number above 0, got 5e3, which is text in YAML; write 5000"),
        ("ratio: 1e-3", "f:1:8: ratio: must be a number of at least 0, got 1e-3, which is text in YAML; write it with"),
        ("count: many", "f:1:8: count: must be a whole number above 0, got the text many"),
        ("count: true", "f:1:8: count: must be a whole number above 0, got true"),
        ("count:", "f:1:7: count: must be a whole number above 0, got nothing"),
        ("count: [1]", "f:1:8: count: must be a whole number above 0, got a list"),
        ("optional: x", "f:1:11: optional: must be a number above 0, or null, got the text x"),
        ("onTop: 1", "f:1:8: onTop: must be true or false, got 1"),
        ('onTop: "yes"', "f:1:8: onTop: must be true or false, got yes"),
        ("title: 5", 'f:1:8: title: must be text, got 5; write "5"'),
        ("title: no", "f:1:8: title: must be text, got no, which YAML reads as false; put it in quotes"),
        ("code: A1", "f:1:7: code: must match ^[a-z]+$, got A1"),
        ("storage: etc", "f:1:10: storage: must be etcd or kine, got etc; did you mean etcd?"),
        ("storage: KINE", "f:1:10: storage: must be etcd or kine, got KINE; did you mean kine?"),
        ("storage: 5", "f:1:10: storage: must be etcd or kine, got 5"),
        ("members: 2", "f:1:10: members: must be 1 or 3, got 2"),
        ("either: 2", "f:1:9: either: must be from 0 to 1, got 2"),
        ("either: x", "f:1:9: either: must be true or false or a number from 0 to 1, got the text x"),
        ("partOrName: 5", "f:1:13: partOrName: must be a map of fields or text, got 5"),
        ("partOrName: {name: a, shar: 1}", "f:1:23: partOrName.shar: unknown field; did you mean share?"),
        ("part: {}", "f:1:1: part.name: missing; wants text that is not empty"),
        ("part:\n  share: 1", "f:1:1: part.name: missing; wants text that is not empty"),
        ("part: 5", "f:1:7: part: must be a map of fields, or null, got 5"),
        ("part: {name: ''}", "f:1:14: part.name: must not be empty"),
        ("part: {name: abcdef}", "f:1:14: part.name: must be 5 letters or shorter, got abcdef"),
        ("parts: []", "f:1:8: parts: needs at least 1 value, got none"),
        ("parts: 5", "f:1:8: parts: must be a list, got 5"),
        ("parts: [{name: a}, {name: b}, {name: c}]", "f:1:8: parts: takes at most 2 values, got"),
        (
            "parts:\n  - name: a\n  - {name: b, share: 5}",
            "f:3:22: parts[1].share: must be above 0 and at most 1, got 5",
        ),
        ("parts:\n  - name: a\n  - share: 1", "f:3:5: parts[1].name: missing"),
        ("pair: [1]", "f:1:7: pair: needs 2 values, got 1"),
        ("pair: [1, 2, 3]", "f:1:7: pair: takes at most 2 values, got 3"),
        ("pair: [1, x]", "f:1:11: pair[1]: must be a whole number, got the text x"),
        ("labels: {A: b}", "f:1:10: labels.A: must match ^[a-z]+$"),
        ("labels: {a: 5}", 'f:1:13: labels.a: must be text, got 5; write "5"'),
        ("countt: 5", "f:1:1: countt: unknown field; did you mean count?"),
        ("on_top: true", "f:1:1: on_top: unknown field; did you mean onTop?"),
        ("zzz: 5", "f:1:1: zzz: unknown field; known are between, bounded, code, count, either,"),
        ("share: 5", "f:1:1: share: unknown field here; it belongs under part"),
        ('"a\\nb": 5', 'f:1:1: ["a\\nb"]: unknown field'),
        ("- count: 5", "f:1:1: must be a map of fields, got a list"),
        ("ratio: 1\ncount: 200", "f:2:1: count is too much for bounded"),
    ],
)
def test_each_kind_of_mistake_is_told_in_plain_words(text: str, expected: str) -> None:
    found = problems(text)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        "ratio: 1",
        "between: 0.5",
        "optional: null",
        "either: true",
        "either: 0.5",
        "partOrName: x",
        "partOrName: {name: x}",
        "quantity: 2",
        "title: 2026-11-16",
    ],
)
def test_what_is_right_is_taken(text: str) -> None:
    assert problems(text) == []


def test_a_validator_may_point_below_its_model_and_tell_several_things() -> None:
    assert problems("title: two\nparts: [{name: a}]\nlabels: {a: b}") == [
        "f:2:16: parts[0].name: must not be that",
        "f:3:9: labels: nor these",
    ]


def test_the_checks_of_a_whole_map_speak_even_if_other_fields_of_it_are_wrong() -> None:
    assert problems("count: 200\nstorage: x\ntypo: 1") == [
        "f:2:10: storage: must be etcd or kine, got x",
        "f:3:1: typo: unknown field; known are " + ", ".join(sorted(known())),
        "f:1:1: count is too much for bounded",
    ]


def test_of_several_things_found_by_one_check_only_those_about_refused_fields_are_left_out() -> None:
    assert problems("title: two\nparts: [{name: a}]\nlabels: 5") == [
        "f:3:9: labels: must be a map of fields, got 5",
        "f:2:16: parts[0].name: must not be that",
    ]


def test_no_check_speaks_of_a_field_that_was_refused_by_itself() -> None:
    assert problems("count: 200\nbounded: x") == [
        "f:2:10: bounded: must be a whole number from 1 to 10, got the text x"
    ]
    assert problems("count: 200\nbounded: 11\nratio: -1") == [
        "f:2:10: bounded: must be from 1 to 10, got 11",
        "f:3:8: ratio: must be at least 0, got -1",
    ]


def known() -> list[str]:
    return [str(field.alias) for field in Sample.model_fields.values()]


def test_all_problems_of_a_profile_come_at_once_by_line(tmp_path: Path) -> None:
    text = HEAD + (
        "scale:\n  machines: -5\n  machines: 3\n  densty: 4\n"
        "loadProfile:\n  churnPerMinut: 1\n  bursts:\n    - {atSeconds: 1, archetype: wep, extraTarget: 1}\n"
        "catalog: {archetypes: smoke}\nslo: {minObservations: .inf}\n"
    )
    error = refusal(tmp_path / "mine.yaml", text)
    first, *lines = error.message.splitlines()
    assert first.endswith("mine.yaml is not a valid profile: 7 problems")
    found = [re.fullmatch(r".*mine\.yaml:(\d+):(\d+): ([^:]+): (.*)", line) for line in lines]
    assert [(m[1], m[2], m[3], re.sub(r"\S*/archetypes", "archetypes", m[4])) for m in found if m] == [
        ("3", "1", "scale.density", "missing; wants a whole number from 1 to 1000"),
        ("4", "13", "scale.machines", "must be from 1 to 100,000,000, got -5"),
        ("5", "3", "scale.machines", "stands twice; first on line 4"),
        ("6", "3", "scale.densty", "unknown field; did you mean density?"),
        ("8", "3", "loadProfile.churnPerMinut", "unknown field; did you mean churnPerMinute?"),
        (
            "10",
            "33",
            "loadProfile.bursts[0].archetype",
            "archetypes/smoke.yaml has no archetype wep; did you mean web?",
        ),
        ("12", "24", "slo.minObservations", "must be a finite number, got .inf"),
    ]
    assert "schema profile" in error.hint


ROUTING = """seed: {spotCount: 1, speculativeCount: 1}
catalog: {archetypes: cost-routing}
scale: {machines: 10, density: 10}
"""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "seed: {speculativeMultiplier: 1, speculativeCount: 1, preBind: true, preBindFraction: 1}\n",
            [
                "mine.yaml:3:8: seed: speculativeMultiplier and speculativeCount exclude each other",
                "mine.yaml:3:55: seed: preBind and preBindFraction exclude each other",
            ],
        ),
        (
            "slo: {shortfallStabilityMax: 0, costRoutingTolerantBucket: '0', costRoutingMisroutedMax: 0}\n",
            [
                "mine.yaml:3:30: slo.shortfallStabilityMax: needs expectStandingShortfall",
                "mine.yaml:3:60: slo.costRoutingTolerantBucket: needs expectCostRouting",
                "mine.yaml:3:90: slo.costRoutingMisroutedMax: needs expectCostRouting",
            ],
        ),
        (
            "topology: {kwokClusters: 90000}\n"
            "slo: {expectCostRouting: true, costRoutingTolerantBucket: '0', costRoutingSensitiveBucket: '8'}\n",
            [
                "mine.yaml:3:12: topology.kwokClusters is 90000, but there are 80 Pods",
                "mine.yaml:4:7: slo.expectCostRouting needs both tiers: seed.spotCount and seed.speculativeCount "
                "above zero",
            ],
        ),
        (
            "loadProfile: {mode: cr}\nseed: {preBind: true}\n",
            ["mine.yaml:3:15: loadProfile.mode cr has no Pods to bind: leave seed.preBind"],
        ),
        ("loadProfile: {seed: 9007199254740992}\n", ["must be from 0 to 9,007,199,254,740,991"]),
        ("loadProfile: {seed: -1}\n", ["must be from 0 to 9,007,199,254,740,991"]),
    ],
)
def test_the_checks_of_a_profile_tell_everything_that_they_find(
    tmp_path: Path, fields: str, expected: list[str]
) -> None:
    catalog = "cost-routing" if "costRoutingSensitive" in fields else "smoke"
    rest = f"scale: {{machines: 8, density: 10}}\ncatalog: {{archetypes: {catalog}}}\n"
    error = refusal(tmp_path / "mine.yaml", HEAD + fields + rest)
    assert len(error.problems) == len(expected)
    for problem, sentence in zip(error.problems, expected, strict=True):
        assert sentence in problem


@pytest.mark.parametrize(
    ("tolerant", "sentence"),
    [
        ("cheap", "'cheap' is no penalty bucket; they are unspecified, 0, 0.5, 1, 2"),
        ("64", "has a penalty in this bucket; it has 0, 8"),
    ],
)
def test_cost_routing_watches_buckets_that_the_catalog_has(tmp_path: Path, tolerant: str, sentence: str) -> None:
    slo = f"slo: {{expectCostRouting: true, costRoutingTolerantBucket: '{tolerant}', costRoutingSensitiveBucket: '8'}}"
    error = refusal(tmp_path / "mine.yaml", HEAD + ROUTING + slo)
    assert [sentence in problem for problem in error.problems] == [True]
    assert "slo.costRoutingTolerantBucket" in error.problems[0]


def test_spellings_of_the_runbook_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        HEAD + "scale: {machines: 1, density: 1}\ncatalog: {archetypes: ''}\ntopology: {coordinatorReplicas: 0}\n"
    )
    profile, catalog, _ = read_profile(str(path))
    assert profile.catalog.archetypes == "realistic"
    assert catalog == read_profile("50k")[1]
    assert derive_geometry(profile, read_substrate("embedded")[0]).coordinators == 1
    assert read_profile("50k.yaml") == read_profile("50k")


def test_a_file_here_wins_over_a_profile_that_ships_if_its_ending_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "50k.yaml").write_text(SMOKE)
    assert read_profile("50k.yaml")[0] == read_profile("smoke")[0]
    assert read_profile("50k")[0].scale.machines == 50_000


ARCHETYPE = """archetypes:
  - name: web
    weight: {weight}
    instanceTypes: [m5.large]
    zones: [{zone}]
    resources: {{cpu: "1"}}
    labelAxes: [{{key: "{key}", count: {count}}}]
"""


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weight": 2**63 - 1}, "weight: must be from 1 to 1,000,000,000"),
        ({"key": "x" * 64}, "is no name: at most 63 letters"),
        ({"key": "a/b/c"}, "'a/b' is no DNS subdomain"),
        ({"key": "-a.com/x"}, "'-a.com' is no DNS subdomain"),
        ({"key": "a..com/x"}, "'a..com' is no DNS subdomain"),
        ({"key": "/x"}, "'' is no DNS subdomain"),
        ({"key": f"{'a.' * 126}aa/x"}, "is no DNS subdomain: at most 253"),
        ({"key": "x" * 60, "count": 101}, "key: its last value, "),
        ({"zone": "z" * 60}, "zones[0]: must be 55 letters or shorter"),
    ],
)
def test_labels_follow_kubernetes_rules(tmp_path: Path, changes: dict[str, object], sentence: str) -> None:
    sound = {"weight": 1, "zone": "a", "key": f"{'a.' * 126}a/{'x' * 60}", "count": 100}
    path = tmp_path / "mine.yaml"
    path.write_text(ARCHETYPE.format(**sound))
    assert check_document(str(path)).endswith("valid catalog")
    path.write_text(ARCHETYPE.format(**sound | changes))
    with pytest.raises(InvalidDocument) as caught:
        check_document(str(path))
    assert len(caught.value.problems) == 1
    assert sentence in caught.value.problems[0]


def test_a_profile_and_its_catalog_are_refused_together(tmp_path: Path) -> None:
    (tmp_path / "archetypes").mkdir()
    (tmp_path / "archetypes" / "own.yaml").write_text("archetypes:\n  - name: WEB\n")
    text = HEAD + "scale: {machines: 1, density: x}\ncatalog: {archetypes: own}\n"
    message = refusal(tmp_path / "mine.yaml", text).message
    headline = message.splitlines()[0]
    assert re.search(r"mine\.yaml is not a valid profile: 1 problem, and \d problems in its catalog$", headline)
    assert "mine.yaml:3:31: scale.density: must be a whole number" in message
    assert "own.yaml:2:11: archetypes[0].name: must match" in message
    assert "own.yaml:2:5: archetypes[0].zones: missing" in message


def test_a_sound_profile_with_a_broken_catalog_says_whose_fault_it_is(tmp_path: Path) -> None:
    (tmp_path / "archetypes").mkdir()
    (tmp_path / "archetypes" / "own.yaml").write_text("archetypes: [\n")
    error = refusal(tmp_path / "mine.yaml", HEAD + "scale: {machines: 1, density: 1}\ncatalog: {archetypes: own}\n")
    assert re.search(r"mine\.yaml cannot be used: .*own\.yaml is not valid YAML$", error.message.splitlines()[0])
    assert "schema catalog" in error.hint


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        (
            "catalog: {archetypes: smokey}",
            "mine.yaml:4:23: catalog.archetypes: there is no catalog smokey; did you mean",
        ),
        ("catalog: {archetypes: zzzzzz}", "there is no catalog zzzzzz; known are"),
        ("catalog: {archetypes: " + "x" * 5000 + "}", "there is no catalog xxx"),
        ('catalog: {archetypes: "a\\0b"}', "there is no catalog a\\x00b"),
        ("catalog: {archetypes: 5}", "catalog.archetypes: must be text, got 5"),
        ("catalog: 5", "mine.yaml:4:10: catalog: must be a map of fields, got 5"),
    ],
)
def test_a_catalog_that_is_not_there(tmp_path: Path, catalog: str, expected: str) -> None:
    error = refusal(tmp_path / "mine.yaml", HEAD + "scale: {machines: 1, density: 1}\n" + catalog)
    assert expected in error.message
    assert len(error.problems) == 1


def test_a_catalog_beside_its_profile_wins_over_one_that_ships(tmp_path: Path) -> None:
    (tmp_path / "archetypes").mkdir()
    own = (PROFILES / "archetypes" / "smoke.yaml").read_text().replace("name: web", "name: wide")
    (tmp_path / "archetypes" / "smoke.yaml").write_text(own)
    (tmp_path / "mine.yaml").write_text(SMOKE)
    assert read_profile(str(tmp_path / "mine.yaml"))[1]["wide"].name == "wide"
    assert read_profile("smoke")[1]["web"].name == "web"


def test_a_document_of_another_kind_is_named() -> None:
    with pytest.raises(UsageError, match="this is a substrate, a profile is wanted"):
        read_profile(str(PROFILES.parent / "substrates" / "embedded.yaml"))
    with pytest.raises(UsageError, match="this is a catalog, a substrate is wanted"):
        read_substrate(str(PROFILES / "archetypes" / "smoke.yaml"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Profil\nscale: {machines: 0, density: 1}", ["kind: must be Profile, got Profil", "scale.machines"]),
        ("kind: Fleet", ["mine.yaml:1:7: kind: must be Profile or Substrate; a catalog has no kind"]),
        ("kind: [1]", ["kind: must be Profile or Substrate"]),
        ("a: 1\na: 2", ["it cannot be told what this is", "stands twice"]),
        ("- 1", ["mine.yaml:1:1: must be a map of fields"]),
        ("", ["mine.yaml:1:1: the file is empty"]),
        ("archetypes: 5", ["is not a valid catalog", "archetypes: must be a list, got 5"]),
        ("seedArchetypes: []", ["is not a valid catalog"]),
        ("a: [", ["is not valid YAML"]),
    ],
)
def test_what_a_file_is_can_be_told_or_not(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        check_document(str(path))
    for sentence in expected:
        assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"kind: Profile\na: \xff\n", "mine.yaml:2:4: cannot be read as text: byte 0xff is not UTF-8"),
        ("kind: Profile".encode("utf-16"), "mine.yaml:1:1: cannot be read as text"),
        (b"\x00\x01", "mine.yaml:1:1: the character U+0000 is not allowed in YAML"),
        (b"a: 1\n" * 100_000, "is larger than 256 KiB"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, raw: bytes, expected: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=re.escape(expected)):
        check_document(str(path))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "there is no profile ''"),
        ("smok", "there is no profile 'smok'; did you mean smoke?"),
        ("Smoke.yaml", "there is no file Smoke.yaml; did you mean smoke?"),
        ("x" * 5000, "there is no profile 'xxx"),
        ("a\0b", "there is no profile 'a\\x00b'"),
        ("no/such/file.yaml", "there is no file no/such/file.yaml"),
    ],
)
def test_a_name_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_profile(name)
    assert sentence in caught.value.message
    assert "`scaletest-runner profiles` lists what ships" in caught.value.hint


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        read_substrate(str(tmp_path))


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.symlink_to("/proc/self/mem")
    with pytest.raises(UsageError, match="cannot be read"):
        read_profile(str(path))


def test_a_pipe_can_be_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, SMOKE.encode())
    os.close(writing)
    assert read_profile(f"/dev/fd/{reading}")[0] == read_profile("smoke")[0]
    os.close(reading)


def test_a_file_that_is_wrong_everywhere_is_cut_short(tmp_path: Path) -> None:
    fields = ["catalog: {archetypes: smoke}", "scale: {machines: 1, density: 1}", *(f"x{n}: 1" for n in range(150))]
    error = refusal(tmp_path / "mine.yaml", HEAD + "\n".join(fields))
    assert len(error.problems) == 101
    assert error.problems[-1].endswith("mine.yaml: and 50 more")


def test_names_are_spelled_as_in_yaml_and_cannot_break_a_line() -> None:
    assert spelled(("loadProfile", "bursts", 1, "atSeconds")) == "loadProfile.bursts[1].atSeconds"
    assert spelled(("resources", "nvidia.com/gpu")) == 'resources["nvidia.com/gpu"]'
    assert shown("a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert len(shown("x" * 1000)) == 60


def test_near_names_are_found_and_far_ones_are_not() -> None:
    assert nearest("dev50", ["dev-50", "dev-500", "smoke"]) == "dev-50"
    assert nearest("churn_per_minute", ["churnPerMinute", "soakSeconds"]) == "churnPerMinute"
    assert nearest("moon", ["smoke", "embedded"]) == ""

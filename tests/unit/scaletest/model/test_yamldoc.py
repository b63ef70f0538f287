"""YAML as plain data with positions: what is read as it looks, what is refused, and where."""

import json
import pathlib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scaletest.model.files.problems import Path
from scaletest.model.files.reading import CATALOGS
from scaletest.model.files.yamldoc import Located, read_yaml
from scaletest.project import PROFILES, SUBSTRATES

SHIPPED = sorted(path for folder in (PROFILES, SUBSTRATES, CATALOGS) for path in folder.glob("*.yaml"))


def faults(text: str) -> list[str]:
    return [fault.in_file("f") for fault in read_yaml(text).faults]


def root(text: str) -> Located:
    document = read_yaml(text)
    assert document.root is not None
    assert not document.faults
    return document.root


def every_key(here: Located, path: Path = ()) -> list[Path]:
    below = [key for part, value in here.parts.items() for key in every_key(value, (*path, part))]
    return [*((*path, key) for key in here.keys), *below]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_read_as_pyyaml_reads_them_and_every_key_is_where_it_says(file: pathlib.Path) -> None:
    text = file.read_text()
    document = root(text)
    assert document.data == yaml.safe_load(text)
    lines = text.splitlines()
    keys = every_key(document)
    assert len(keys) > 5
    for path in keys:
        place = document.place_of(path, key=True)
        assert lines[place.line - 1][place.column - 1 :].startswith(str(path[-1]))


def test_a_value_is_where_it_was_written_and_what_was_not_is_where_it_is_missing() -> None:
    document = root("scale:\n  machines: 5\nlist:\n  - {a: 1, b: [x, y]}\n")
    places = {
        ("scale", "machines"): (2, 13),
        ("list", 0, "b", 1): (4, 19),
        ("list", 0): (4, 5),
        ("scale", "density"): (2, 3),
        ("nothing", 3, "here"): (1, 1),
    }
    for path, expected in places.items():
        place = document.place_of(path)
        assert (place.line, place.column) == expected, path


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: 1_000\nb: 0x1f\nc: -5", {"a": 1000, "b": 31, "c": -5}),
        ("a: yes\nb: off\nc: True", {"a": True, "b": False, "c": True}),
        ("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}),
        ("a: 2026-11-16\nb: 1:30\nc: 12:30:45.5", {"a": "2026-11-16", "b": "1:30", "c": "12:30:45.5"}),
        ("a: =\nb: '<<'", {"a": "=", "b": "<<"}),
        ("a: !!str 5\nb: !!int '5'\nc: !!float 5", {"a": "5", "b": 5, "c": 5.0}),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("\ufeffa: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        ("--- \na: 1\n...\n", {"a": 1}),
    ],
)
def test_plain_values(text: str, data: object) -> None:
    assert root(text).data == data


@pytest.mark.parametrize(
    "text",
    [
        "x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}",
        "x: &x {a: 1}\nz: &z {a: 2, c: 3}\ny:\n  <<: [*x, *z]\n  d: 4",
        "x: &x {a: 1}\nz: &z {<<: *x, b: 2}\ny: {c: 3, <<: *z}",
    ],
)
def test_merge_keys_work_as_in_pyyaml(text: str) -> None:
    assert root(text).data == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f:1:1: the file is empty"),
        ("# only words\n", "f:1:1: the file is empty"),
        ("a: 010", "f:1:4: a: 010 is octal in YAML"),
        ("a: .inf", "f:1:4: a: must be a finite number, got .inf"),
        ("a: [1, .nan]", "f:1:8: a[1]: must be a finite number, got .nan"),
        ("a: 1.0e+400", "f:1:4: a: must be a finite number, got 1.0e+400"),
        ("a: " + "9" * 5000, "f:1:4: a: a number of 5000 digits is beyond"),
        ("a: 9223372036854775808", "f:1:4: a: 9223372036854775808 is beyond"),
        ("a: !!python/object/apply:os.getcwd []", "f:1:4: a: the tag !!python/object/apply:os.getcwd is not allowed"),
        ("a: !mine 5", "f:1:4: a: the tag !mine is not allowed"),
        ("a: !!set {b}", "f:1:4: a: the tag !!set is not allowed"),
        ("a: !!binary aGk=", "f:1:4: a: the tag !!binary is not allowed"),
        ("a: !!int five", "f:1:4: a: five is not what its tag says"),
        ("a: !!bool ''", "f:1:4: a: nothing is not what its tag says"),
        ('a: "\\ud800"', "f:1:4: a: \\ud800 holds half a character"),
        ('a: "\\UFFFFFFFF"', "f:1:7: not YAML"),
        ("5: a", "f:1:1: the key 5 is a number in YAML"),
        ("on: a", "f:1:1: the key on is true in YAML"),
        ("~: a", "f:1:1: the key ~ is null in YAML"),
        ("? [a, b]\n: c", "f:1:3: a key must be a word"),
        ("a: 1\n---\nb: 2", "f:2:1: a second document starts here"),
        ("a: &a [1, *a]", "f:1:4: a[1]: an alias of something that it is itself a part of"),
        ("a: {<<: 5}", 'f:1:9: a["<<"]: only a map'),
        ("a: *b", "f:1:4: found undefined alias"),
        ("a: b: c", "f:1:5: a colon cannot stand here"),
        ("a:\n\t- b", "f:2:1: a tab stands where YAML wants spaces"),
        ("a:\n  b: 1\n c: 2", "f:3:2: this does not fit the indent of what starts on line 1"),
        ("a: {b: 1", "f:1:9: a comma or a } is missing in what starts on line 1"),
        ("a: 'b", "f:1:6: the quote that opens on line 1 is never closed"),
        ("a: @b", "f:1:4: a text cannot start with @"),
        ("a: [1,", "f:1:7: a value is missing here"),
        ("a: b\nc\nd: e", "f:3:1: a colon is missing after the key on line 2"),
        ("a: \x07", "f:1:4: the character U+0007 is not allowed"),
        ("[" * 5000, "f:1:65: nested more than 64 deep"),
        ("\n".join(f"a{i}: &a{i} [{f'*a{i - 1}' if i else ''}]" for i in range(90)), "nested more than 64 deep"),
    ],
)
def test_what_is_refused_and_where(text: str, expected: str) -> None:
    assert any(expected in line for line in faults(text)), faults(text)


def test_every_duplicate_is_named_with_the_line_of_the_first() -> None:
    assert faults("a: 1\nb: {c: 1, c: 2}\na: 2\na: {d: 1, d: 1}\n") == [
        "f:2:11: b.c: stands twice; first on line 2",
        "f:3:1: a: stands twice; first on line 1",
        "f:4:1: a: stands twice; first on line 1",
        "f:4:11: a.d: stands twice; first on line 4",
    ]


def test_a_merged_key_may_be_overridden_but_not_merged_twice() -> None:
    assert faults("x: &x {a: 1}\ny: {<<: *x, a: 2}") == []
    assert len(faults("x: &x {a: 1}\ny: {<<: *x, <<: *x}")) == 1


@pytest.mark.parametrize("entry", ["[{}]", "{{a: {0}, b: {0}, c: {0}, d: {0}}}", "{{<<: [{}]}}"])
def test_a_bomb_of_aliases_is_refused_before_it_grows(entry: str) -> None:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    for level in range(1, 12):
        aliases = f"*a{level - 1}" if "{0}" in entry else ", ".join([f"*a{level - 1}"] * 8)
        lines.append(f"a{level}: &a{level} {entry.format(aliases)}")
    assert any("values, aliases included" in line for line in faults("\n".join(lines)))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=60)
@given(data=st.dictionaries(st.sampled_from("abcdef"), plain, min_size=1), flow=st.booleans())
def test_what_pyyaml_writes_reads_back_the_same(data: dict[str, object], flow: bool) -> None:
    assert root(yaml.safe_dump(data, default_flow_style=flow, sort_keys=False)).data == data


@settings(max_examples=150)
@given(st.text(max_size=200) | st.text("{}[]:-,&*!|>'\"%@#?<= \n\tabn01.~", max_size=60))
def test_any_text_ends_in_data_or_in_faults_with_a_place(text: str) -> None:
    document = read_yaml(text)
    assert document.root is not None or document.faults
    for fault in document.faults:
        assert fault.what
        assert 1 <= fault.line <= len(text) + 2
        assert fault.column >= 1
    if document.root is not None:
        assert json.loads(json.dumps(document.root.data, allow_nan=False)) == document.root.data

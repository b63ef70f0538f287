"""However a shipped file is spoiled, it is either a sound document that plans or refused with a place; nothing else."""

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scaletest.errors import UsageError
from scaletest.model.files.reading import CATALOGS, InvalidDocument, check_document, read_profile, read_substrate
from scaletest.model.plan import make_plan
from scaletest.project import PROFILES, SUBSTRATES
from scaletest.report.plan import full_plan_lines, plan_document
from tests.unit.plans import LAPTOP

TEXTS = {
    "profile": (PROFILES / "smoke.yaml").read_text(),
    "substrate": (SUBSTRATES / "embedded.yaml").read_text(),
    "catalog": (CATALOGS / "smoke.yaml").read_text(),
}
SMOKE_WITH_OWN_CATALOG = TEXTS["profile"].replace("archetypes: smoke", "archetypes: own")
ODD = [
    *(str(2**63 - 1), str(2**53), "100000000", "1000000", "1000000000"),
    *("", "~", "null", "no", "on", "true", "010", "08", "0x10", "1:30", "1e3", "1e400", "1.0e+400", ".inf", "-.inf"),
    *(".nan", "9" * 20, "9" * 5000, "-1", "0", "0.5", "1.5", "5", '"5"', "'x", "[]", "{}", "[1, [2]]", "{a: {b: 1}}"),
    *("*x", "&x y", "<<", "? a", "!!int x", "!!python/name:os.system", "!x", "2026-01-01", "|", ">-", "@", "`", "%"),
    *(
        '"\\ud800"',
        '"\\UFFFFFFFF"',
        '"\\0"',
        "\x07",
        "\ufeff",
        "\u2028",
        "\t",
        "é",
        "😀",
        "a: b",
        "- a",
        "---",
        "...",
        "#",
    ),
    *("[" * 200, "x" * 2000, "Profile", "Substrate", "etcd", "web", "10m", "2Gi", "-5Gi", "1e999999999", "sameRack"),
]
SPACE = ["", " ", "  ", "    ", "\t", "      ", "- ", "  - "]

Mutation = Callable[[str], str]
numbers = st.integers(0, 10_000)
odd = st.sampled_from(ODD)


def on_span(change: Callable[[str], str]) -> Callable[[int, int], Mutation]:
    def mutation(start: int, length: int) -> Mutation:
        def apply(text: str) -> str:
            at = start % (len(text) + 1)
            return text[:at] + change(text[at : at + length]) + text[at + length :]

        return apply

    return mutation


def on_line(number: int, change: Callable[[str], list[str]]) -> Mutation:
    def apply(text: str) -> str:
        lines = text.split("\n")
        at = number % len(lines)
        return "\n".join([*lines[:at], *change(lines[at]), *lines[at + 1 :]])

    return apply


def with_value(line: str, value: str) -> list[str]:
    return [re.sub(r"(: |- )[^#]*", lambda found: found[1] + value + " ", line, count=1)]


def with_key(line: str, key: str) -> list[str]:
    return [re.sub(r"[\w.]+(?=:)", lambda _: key, line, count=1)]


mutations = st.one_of(
    st.builds(on_span(lambda _: ""), numbers, st.integers(1, 40)),
    st.builds(on_span(lambda span: span * 2), numbers, st.integers(1, 40)),
    st.builds(lambda at, text: on_span(lambda _: text)(at, 0), numbers, odd | st.text(max_size=3)),
    st.builds(lambda at, length, text: on_span(lambda _: text)(at, length), numbers, st.integers(1, 10), odd),
    st.builds(lambda number: on_line(number, lambda _: []), numbers),
    st.builds(lambda number: on_line(number, lambda line: [line, line]), numbers),
    st.builds(
        lambda number, space: on_line(number, lambda line: [space + line.lstrip()]), numbers, st.sampled_from(SPACE)
    ),
    st.builds(lambda number, value: on_line(number, lambda line: with_value(line, value)), numbers, odd),
    st.builds(
        lambda number, key: on_line(number, lambda line: with_key(line, key)), numbers, odd | st.text(max_size=5)
    ),
)


def check(text: str, what: str = "profile") -> None:
    """Sound documents plan, all others are refused with a place; nothing else comes out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.yaml"
        # A catalog is read through a profile that names it.
        if what == "catalog":
            (Path(folder) / "mine.yaml").write_text(SMOKE_WITH_OWN_CATALOG)
            path = Path(folder) / "archetypes" / "own.yaml"
            path.parent.mkdir()
        path.write_text(text, newline="")
        profile, substrate = ("smoke", str(path)) if what == "substrate" else (f"{folder}/mine.yaml", "embedded")
        for read in (lambda: check_document(str(path)), lambda: show_plan(profile, substrate)):
            try:
                read()
            except InvalidDocument as error:
                assert_tells_where(error, path.name, len(text.splitlines()) + 1)
            except UsageError as error:
                assert error.message


def show_plan(profile: str, substrate: str) -> None:
    """Everything that `plan` works out and prints."""
    profile_model, catalog, profile_name = read_profile(profile)
    substrate_model, substrate_name = read_substrate(substrate)
    plan = make_plan(profile_model, profile_name, catalog, substrate_model, substrate_name, this_host=LAPTOP)
    json.dumps(plan_document(plan), allow_nan=False)
    assert "\n".join(full_plan_lines(plan))


def assert_tells_where(error: InvalidDocument, file: str, last_line: int) -> None:
    headline, *lines = error.message.split("\n")
    assert headline
    assert lines, headline
    seen: list[tuple[str, int, int]] = []
    for line in lines:
        found = re.fullmatch(r"(.+?\.yaml):(\d+):(\d+): \S.*", line)
        assert found or re.fullmatch(r".*\.yaml: and \d+ more", line), line
        assert line.isprintable()
        if found and found[1].endswith(file):
            assert 1 <= int(found[2]) <= last_line
            seen.append((found[1], int(found[2]), int(found[3])))
    assert seen == sorted(seen)


@pytest.mark.parametrize("what", TEXTS)
@settings(max_examples=80)
@given(changes=st.lists(mutations, min_size=1, max_size=4))
def test_a_spoiled_document_is_sound_or_refused_with_a_place(what: str, changes: list[Mutation]) -> None:
    text = TEXTS[what]
    for change in changes:
        text = change(text)
    # What the disk cannot hold is no file.
    check(text.encode(errors="replace").decode(), what)


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["etcd", "web", "1Gi"])
)
names = st.sampled_from(sorted(set(re.findall(r"(\w+):", "\n".join(TEXTS.values()))))) | st.text(max_size=4)
anything = st.recursive(leaves, lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=4))


@settings(max_examples=50)
@given(kind=st.sampled_from(["Profile", "Substrate", None]), data=st.dictionaries(names, anything, max_size=8))
def test_any_data_under_known_names_is_sound_or_refused_with_a_place(kind: str | None, data: dict[str, object]) -> None:
    what = "substrate" if kind == "Substrate" else "profile"
    if kind:
        data = {**data, "apiVersion": "bigfleet.io/scaletest/v1", "kind": kind}
    check(yaml.safe_dump(data), what)


NUMBER = re.compile(r"(?<=: )-?[0-9][0-9.e-]*(?=[,} \n])")
sizes = st.sampled_from(["0", "1", "2", "0.5", "40", "1000", "100000", "1000000", "100000000", "1000000000"])


@pytest.mark.parametrize("what", TEXTS)
@settings(max_examples=60)
@given(changes=st.lists(st.tuples(numbers, sizes), min_size=1, max_size=3))
def test_a_document_of_any_size_plans_or_is_refused(what: str, changes: list[tuple[int, str]]) -> None:
    text = TEXTS[what]
    for number, size in changes:
        found = list(NUMBER.finditer(text))
        span = found[number % len(found)]
        text = text[: span.start()] + size + text[span.end() :]
    check(text, what)

"""Every citation in the repository can be followed: decisions, pages and their sections (docs/reference/README.md)."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from scaletest.project import PROJECT

ROOT = PROJECT
DECISIONS = "docs/reference/decisions.md"
ADR_INDEX = "docs/adr/README.md"

# Nobody cites anything in these; and here stand the wrong ones that the check must find.
_SKIPPED = re.compile(r"_pb2|\.(png|svg|lock|sum|mod)$|^LICENSE$|^tests/unit/project/test_citations\.py$")
_OURS = re.compile(r"\bADR-(\d+)\b")
_UPSTREAMS = re.compile(r"\bBF-(\d+)\b")
_BEHAVIOUR = re.compile(r"(?<!noqa: )\bB\d{3,4}(?:–\d{3,4})?\b")
# What came with the mission and is not in the repository, and how decisions were once cited.
_OLD = re.compile(
    r"\bADR \d+|\bADR-0\d+|\bspec/(?:engine|harness)\.md|(?<![\w/-])(?:design|verdicts|engine-perf|style)\.md"
    r"|§ ?\d|docs/adr/\d{4}(?!-)",
    re.IGNORECASE,
)
# Not what code puts together (`docs / "gates.md"`, `{keep}/score.md`), nor addresses elsewhere.
_PAGE = re.compile(r"(?<![\w/.}>-])(?<!/ \")((?:[\w.-]+/)*[\w.-]+\.md)(?:#([\w-]+))?(?![\w/])")
# A file or a folder of the source, as a page or a comment names it.
_SOURCE = re.compile(
    r"(?<![\w/.{}-])((?:bigfleet|scaletest|tests|chart)/(?:[\w-]+/)*(?:[\w-]+\.(?:py|yaml|tpl))?)(?![\w.*<{/])"
)
_OWN_SECTION = re.compile(r"]\(#([\w-]+)\)")
# Written by `make score`, not by us.
_NOT_OURS = "score.md"
# Most lines have none of these, and are not looked at closer.
_MARK = re.compile(r"\.md|ADR|BF-|§|adr/\d|\bB\d{3}|\]\(#|(?:bigfleet|scaletest|tests|chart)/\w", re.IGNORECASE)


def tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [name for name in listed.split("\0") if name and not _SKIPPED.search(name) and (ROOT / name).is_file()]


@cache
def headings(page: str) -> frozenset[str]:
    """The anchors that GitHub makes of a page's headings."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return frozenset(_slug(title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE))


def _slug(title: str) -> str:
    shown = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", title).strip().lower()
    return re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")


@cache
def our_decisions() -> frozenset[str]:
    """Numbers with a page, and those that the index says were never used."""
    pages = {str(int(path.name[:4])) for path in (ROOT / "docs/adr").glob("[0-9]*.md")}
    return frozenset(pages | set(re.findall(r"^\| ADR-(\d+) \|", (ROOT / ADR_INDEX).read_text(), re.MULTILINE)))


@cache
def upstreams_decisions() -> frozenset[str]:
    return frozenset(re.findall(r"^## BF-(\d{4}) · ", (ROOT / DECISIONS).read_text(), re.MULTILINE))


@cache
def behaviours() -> frozenset[str]:
    return frozenset(re.findall(r"\bB\d{3,4}(?:–\d{3,4})?", (ROOT / "docs/reference/wire.md").read_text()))


def mistakes(name: str, line: str) -> Iterator[str]:
    """What is wrong with the citations on one line of a file."""
    for old in _OLD.findall(line):
        yield f"{old!r} cannot be followed: cite ADR-26, BF-0035 or docs/reference/engine.md#section"
    for number in _OURS.findall(line):
        if number not in our_decisions() and not number.startswith("0"):
            yield f"ADR-{number} is not in {ADR_INDEX}"
    for number in _UPSTREAMS.findall(line):
        if number not in upstreams_decisions():
            yield f"BF-{number} has no heading in {DECISIONS}"
    for number in _BEHAVIOUR.findall(line):
        if number not in behaviours():
            yield f"{number} is not in docs/reference/wire.md#behaviour-numbers"
    # Where a link leads counts, not what it is called.
    for page, anchor in _PAGE.findall(re.sub(r"\[[^]]*]\(", "(", line)):
        if page.endswith(_NOT_OURS) or _OLD.fullmatch(page):
            continue
        found = next((place for place in (page, _beside(name, page)) if (ROOT / place).is_file()), None)
        if found is None:
            yield f"there is no {page}"
        elif anchor and anchor not in headings(found):
            yield f"{found} has no section #{anchor}"
    for place in _SOURCE.findall(line):
        if not (ROOT / place).exists():
            yield f"there is no {place}"
    for anchor in _OWN_SECTION.findall(line) if name.endswith(".md") else ():
        if anchor not in headings(name):
            yield f"this page has no section #{anchor}"


def _beside(name: str, page: str) -> str:
    """A path relative to the citing file, relative to the root."""
    try:
        return (ROOT / name).parent.joinpath(page).resolve().relative_to(ROOT).as_posix()
    except ValueError:
        return page


def test_every_citation_can_be_followed() -> None:
    found = [
        f"{name}:{number}: {mistake}"
        for name in tracked_files()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if _MARK.search(line)
        for mistake in mistakes(name, line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_upstream_decision_that_is_told_is_cited_somewhere() -> None:
    elsewhere = [(ROOT / name).read_text() for name in tracked_files() if name != DECISIONS]
    cited = {number for text in elsewhere for number in _UPSTREAMS.findall(text)}
    assert sorted(upstreams_decisions() - cited) == [], f"nothing leans on these: remove them from {DECISIONS}"


def test_the_index_of_our_decisions_has_every_number_once() -> None:
    numbers = [int(number) for number in re.findall(r"^\| ADR-(\d+) \|", (ROOT / ADR_INDEX).read_text(), re.MULTILINE)]
    assert numbers == list(range(1, max(map(int, our_decisions())) + 1))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("as ADR-99 has it", "ADR-99 is not in"),
        ("as ADR-0026 has it", "'ADR-0026' cannot be followed"),
        ("as ADR 26 has it", "'ADR 26' cannot be followed"),
        ("(docs/adr/0026)", "'docs/adr/0026' cannot be followed"),
        ("(BF-0001)", "BF-0001 has no heading"),
        ("(BF-35)", "BF-35 has no heading"),
        ("(B999)", "B999 is not in"),
        ("(spec/engine.md §3.9)", "'spec/engine.md' cannot be followed"),
        ("(design.md §4)", "'design.md' cannot be followed"),
        ("see scaletest/run/groundwork.py", "there is no scaletest/run/groundwork.py"),
        ("see scaletest/runs/ for it", "there is no scaletest/runs/"),
        ("(docs/reference/motor.md#folding)", "there is no docs/reference/motor.md"),
        ("(docs/reference/engine.md#unfolding)", "docs/reference/engine.md has no section #unfolding"),
        ("see [below](#nowhere)", "this page has no section #nowhere"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(line: str, complaint: str) -> None:
    assert any(mistake.startswith(complaint) for mistake in mistakes("docs/engine.md", line))


@pytest.mark.parametrize(
    "line",
    [
        "ADR-26, BF-0035 and B705 (docs/reference/engine.md#folding)",
        "[gates](gates.md), [folding](reference/engine.md#folding), [above](#the-phases)",
        "a file score.md, a version v1alpha1, a path docs/adr/0026-a-hard-spread-covers-its-domains.md",
    ],
)
def test_a_good_citation_is_left_alone(line: str) -> None:
    assert list(mistakes("docs/engine.md", line)) == []

"""Validates a document and tells for people what is wrong: where it was written, what is allowed, what was meant.

A validator of a model may start its message with a path (`bursts[1].archetype: …`) to point below the model, and put
several problems on several lines. Without one, the first field that the message names is where the problem is shown.
"""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from scaletest.model.counting import counted
from scaletest.model.documents.base import Document
from scaletest.model.files.problems import Fault, Path, did_you_mean, either, shown, spelled
from scaletest.model.files.schema import SchemaNode, literal, shape_of
from scaletest.model.files.yamldoc import Located, Position

_RANGE = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
# The value is of the wrong kind altogether, so another branch of a union may be meant.
_KIND = re.compile(r"\w+_(type|parsing|from_float)|literal_error|enum|none_required")
_NUMBER_IN_QUOTES = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)")
# Numbers to most people, text to YAML 1.1, which wants a dot and a sign.
_EXPONENT = re.compile(r"[-+]?\d[\d.]*[eE][-+]?\d+")
_NAMED = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*|\[\d+\])*")


_BY_VALIDATOR = ("value_error", "assertion_error")

D = TypeVar("D", bound=Document)


@dataclass(frozen=True)
class _Finding:
    """One of pydantic's errors, with its place in the document instead of its place in the model."""

    kind: str
    path: Path
    context: dict[str, Any]
    message: str
    union: Path | None
    """Where the union is that this is one branch's complaint about."""
    branch: str
    of_key: bool


def validate(root: Located, model: type[D]) -> tuple[D | None, list[Fault]]:
    """The model of a document, or everything that is wrong with it."""
    try:
        return _strictly(root.data, model), []
    except ValidationError as error:
        shape = shape_of(model)
        found = _findings(error, root, shape)
    # A wrong field hides what the checks of its map would say about the others, so they are asked again without it.
    wrong = [finding.path for finding in found]
    try:
        _strictly(_without(root.data, [*wrong, *_spoiled(root, ())]), model)
    except ValidationError as error:
        again = [finding for finding in _findings(error, root, shape) if finding.kind in _BY_VALIDATOR]
        lists = [path[: path.index(part)] for path in wrong for part in path if isinstance(part, int)]
        found += [
            finding
            for finding in again
            if finding.path not in wrong and not _mentions(finding, wrong) and not _mentions(finding, lists)
        ]
    return None, _explain(found, root, shape)


def _strictly(data: Any, model: type[D]) -> D:
    """As JSON a text is no number and 1 is not true, but a list is still a tuple and 1 still a float."""
    return model.model_validate_json(json.dumps(data), strict=True, by_alias=True, by_name=False)


def _without(data: Any, paths: list[Path]) -> Any:
    data = copy.deepcopy(data)
    for path in paths:
        while path and isinstance(path[-1], int):  # the other items of a list keep their indexes
            path = path[:-1]
        around = data
        try:
            for part in path[:-1]:
                around = around[part]
        except (KeyError, IndexError, TypeError):
            continue  # never written, or gone with what was around it
        if path and isinstance(around, dict):
            around.pop(path[-1], None)
    return data


def _findings(error: ValidationError, root: Located, shape: SchemaNode) -> list[_Finding]:
    """What is still to be told; a value that YAML itself refused was told already, and must not be judged as null."""
    spoiled = list(_spoiled(root, ()))
    found = [one for detail in error.errors(include_url=False) for one in _each(_locate(detail, root, shape))]
    # A list of which an item is wrong counts only the others.
    miscounted = {f.path[:at] for f in found for at, part in enumerate(f.path) if isinstance(part, int)}
    return [
        finding
        for finding in found
        if not any(finding.path[: len(path)] == path for path in spoiled)
        and not _mentions(finding, spoiled)
        and not (finding.kind == "too_short" and finding.path in miscounted)
    ]


def _each(finding: _Finding) -> Iterator[_Finding]:
    """A check of a whole map may have found several things: a line for each."""
    if finding.kind not in _BY_VALIDATOR:
        yield finding
        return
    cause = finding.context.get("error")
    message = str(cause) if cause else finding.message.split(", ", 1)[-1]
    for line in message.splitlines() or ["is not valid"]:
        yield replace(finding, message=line.strip())


def _spoiled(here: Located, path: Path) -> Iterator[Path]:
    if here.spoiled:
        yield path
    for part, below in here.parts.items():
        yield from _spoiled(below, (*path, part))


def _mentions(finding: _Finding, paths: list[Path]) -> bool:
    """Whether a check of a whole map speaks of a field that is wrong by itself."""
    if finding.kind not in _BY_VALIDATOR:
        return False
    words = set(re.findall(r"\w+", finding.message))
    return any(part in words for path in paths for part in path[-1:])


def _explain(found: list[_Finding], root: Located, shape: SchemaNode) -> list[Fault]:
    """Every finding as a fault; the branches of a union become one."""
    faults: list[Fault] = []
    unions: dict[Path, list[_Finding]] = {}
    for finding in found:
        if finding.union is None:
            faults += _faults(finding, root, shape)
        else:
            unions.setdefault(finding.union, []).append(finding)
    for path, findings in unions.items():
        faults += _union_faults(path, findings, root, shape)
    return list(dict.fromkeys(faults))


def _locate(detail: Any, root: Located, shape: SchemaNode) -> _Finding:
    path: Path = ()
    union, branch, of_key = None, "", False
    for part in detail["loc"]:
        here, allowed = root.at(path), shape.at(path)
        if part == "[key]":
            of_key = True
        elif isinstance(part, int) or (here and part in here.parts) or (allowed and part in allowed.fields()):
            path = (*path, part)
        elif union is None:  # the name of a union's branch, which no author ever wrote
            union, branch = path, part
    return _Finding(detail["type"], path, detail.get("ctx", {}), detail["msg"], union, branch, of_key)


def _union_faults(path: Path, findings: list[_Finding], root: Located, shape: SchemaNode) -> list[Fault]:
    """The branch whose kind of value was written speaks for all; else one sentence says what is allowed."""
    branches: dict[str, list[_Finding]] = {}
    for finding in findings:
        branches.setdefault(finding.branch, []).append(finding)
    fitting = [
        branch
        for branch in branches.values()
        if not all(finding.path == path and _KIND.fullmatch(finding.kind) for finding in branch)
    ]
    if len(fitting) == 1:
        return [fault for finding in fitting[0] for fault in _faults(finding, root, shape)]
    place = root.place_of(path)
    return [Fault(place.line, place.column, path, _kind_words(root.at(path), shape.at(path)))]


def _faults(finding: _Finding, root: Located, shape: SchemaNode) -> list[Fault]:
    path, kind = finding.path, finding.kind
    if kind in _BY_VALIDATOR:
        return [_validator_fault(finding, root)]
    place = root.place_of(path, key=kind == "extra_forbidden" or finding.of_key)
    here, allowed = root.at(path), shape.at(path)
    if kind == "missing":
        if isinstance(path[-1], int):
            path, here, allowed = path[:-1], root.at(path[:-1]), shape.at(path[:-1])
            place, what = root.place_of(path), _too_few_words(here, allowed)
        else:
            place, what = root.place_of(path[:-1], key=True), _missing_words(allowed)
    elif kind == "extra_forbidden":
        what = _unknown_words(path, shape)
    elif kind in ("literal_error", "enum"):
        what = _choice_words(finding, here, allowed)
    elif kind in _RANGE:
        word, key = _RANGE[kind]
        bounds = (allowed.range_words() if allowed else "") or f"{word} {finding.context[key]}"
        what = f"must be {bounds}{_got(here)}"
    elif _KIND.fullmatch(kind):
        what = _kind_words(here, allowed)
    else:
        what = _other_words(finding, here)
    return [Fault(place.line, place.column, path, what)]


def _validator_fault(finding: _Finding, root: Located) -> Fault:
    path, what = finding.path, finding.message
    start, colon, rest = what.partition(": ")
    below = _written_path(start, root.at(path)) if colon else None
    if below:
        path, what = (*path, *below), rest
    place = root.place_of(path) if below else _named_place(what, path, root)
    return Fault(place.line, place.column, path, what)


def _named_place(what: str, path: Path, root: Located) -> Position:
    """A message about a whole map is shown at the first field it names, if that field was written."""
    here = root.at(path)
    if here and here.keys:
        for name in _NAMED.findall(what):
            if below := _written_path(name, here):
                return root.place_of((*path, *below), key=True)
    return root.place_of(path, key=bool(here and here.parts))


def _written_path(name: str, here: Located | None) -> Path | None:
    """`scale.machines`, `bursts[1]` or a whole key such as `nvidia.com/gpu`, if it stands below."""
    if here is None:
        return None
    if name in here.parts:
        return (name,)
    path: Path = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"[^.\[\]]+", name))
    return path if path and here.at(path) else None


def _missing_words(allowed: SchemaNode | None) -> str:
    words = allowed.words() if allowed else ""
    return f"missing; wants {words}" if words else "missing"


def _too_few_words(here: Located | None, allowed: SchemaNode | None) -> str:
    wanted = len(allowed.schema.get("prefixItems", [])) if allowed else 0
    got = len(here.parts) if here else 0
    return f"needs {counted(max(wanted, got + 1), 'value')}, got {got}"


def _unknown_words(path: Path, shape: SchemaNode) -> str:
    name = str(path[-1])
    around = shape.at(path[:-1])
    known = sorted(around.fields()) if around else []
    if near := did_you_mean(name, known):
        return f"unknown field{near}"
    homes = list(dict.fromkeys(spelled(home) for home in shape.holders(name)))
    if homes and "" not in homes:
        return f"unknown field here; it belongs under {either(homes)}"
    return f"unknown field; known are {', '.join(known)}" if known else "unknown field"


def _choice_words(finding: _Finding, here: Located | None, allowed: SchemaNode | None) -> str:
    values = [literal(value) for value in allowed.values()] if allowed else []
    wanted = either(values) or str(finding.context.get("expected", "another value"))
    near = did_you_mean(here.data, values) if here and isinstance(here.data, str) else ""
    return f"must be {wanted}{_got(here)}{near}"


def _kind_words(here: Located | None, allowed: SchemaNode | None) -> str:
    wanted = (allowed.words() if allowed else "") or "of another kind"
    return f"must be {wanted}{_got(here, wanted)}"


def _other_words(finding: _Finding, here: Located | None) -> str:
    context = finding.context
    actual = context.get("actual_length", 0)
    match finding.kind:
        case "finite_number":
            return f"must be a finite number{_got(here)}"
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}{_got(here)}"
        case "too_short":
            return f"needs at least {counted(context['min_length'], 'value')}, got {actual or 'none'}"
        case "too_long":
            return f"takes at most {counted(context['max_length'], 'value')}, got {actual or 'more'}"
        case "string_too_short":
            least = context["min_length"]
            return "must not be empty" if least == 1 else f"must be {least} letters or longer{_got(here)}"
        case "string_too_long":
            return f"must be {counted(context['max_length'], 'letter')} or shorter{_got(here)}"
    words = finding.message.replace("Input should be", "must be").replace("Input should", "must")
    return words[:1].lower() + words[1:]


def _got(here: Located | None, wanted: str = "") -> str:
    """`, got 5`, and why YAML reads it so if that may surprise."""
    if here is None:
        return ""
    written = shown(here.written)
    match here.data:
        case dict():
            return ", got a map"
        case list():
            return ", got a list"
        case None:
            return ", got null" if written else ", got nothing"
        case bool() if written.lower() not in ("true", "false"):
            return f", got {written}, which YAML reads as {literal(here.data)}; put it in quotes if it is text"
        case bool() | int() | float():
            return f", got {written}" + (f'; write "{written}"' if wanted.startswith("text") else "")
        case _:
            return _got_text(here, written, wanted)


def _got_text(here: Located, written: str, wanted: str) -> str:
    if "number" not in wanted:
        return f", got {written}" if written else ", got an empty text"
    if here.quoted and _NUMBER_IN_QUOTES.fullmatch(here.written):
        return f', got the text "{written}"; remove the quotes'
    if _EXPONENT.fullmatch(here.written):
        number = float(here.written) if len(here.written) < 20 else 0.0
        better = f"; write {int(number)}" if 1 <= abs(number) < 1e15 and number.is_integer() else ""
        return f", got {written}, which is text in YAML{better or '; write it with a dot, as in 1.5e-3'}"
    return f", got the text {written}" if written else ", got an empty text"

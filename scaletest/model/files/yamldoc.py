"""YAML text as plain data that knows where every key and value was written.

Built from PyYAML's node graph, so that anchors, aliases and merge keys work as everywhere else. What would surprise a
reader is refused or read as it looks: a key that stands twice, octal numbers, tags; dates and `1:30` are text.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from scaletest.errors import ScaletestError
from scaletest.model.files.problems import Fault, Path, shown

MOST_BYTES = 256 * 1024
_MOST_LEVELS = 64
_MOST_VALUES = 20_000
_LARGEST_INT = 2**63 - 1

_TAG = "tag:yaml.org,2002:"
# No field is a date, and `=` and a quoted `<<` are words like any other.
_TEXT_TAGS = {_TAG + name for name in ("str", "timestamp", "value", "merge")}
_OCTAL = re.compile(r"[-+]?0[0-7_]+")


@dataclass(frozen=True, slots=True)
class Position:
    """Line and column, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Located:
    """One value: its plain data, and where it and its parts were written."""

    place: Position
    data: Any
    written: str = ""
    """A scalar as its author spelled it."""
    quoted: bool = False
    spoiled: bool = False
    """It already has a fault, so nothing more is to be said about its type."""
    keys: dict[str, Position] = field(default_factory=dict)
    parts: "dict[str | int, Located]" = field(default_factory=dict)

    def at(self, path: Path) -> "Located | None":
        """The value below this one, if it was written."""
        here: Located | None = self
        for part in path:
            here = here.parts.get(part) if here else None
        return here

    def place_of(self, path: Path, *, key: bool = False) -> Position:
        """Where a value, or the key before it, was written; of what was not written: the nearest around it."""
        here, place = self, self.place
        for part in path:
            below = here.parts.get(part)
            if below is None:
                return place
            place = here.keys[part] if key and isinstance(part, str) else below.place
            here = below
        return place


@dataclass(frozen=True)
class YamlDocument:
    """What was read."""

    root: Located | None
    faults: tuple[Fault, ...]
    is_yaml: bool = True
    """Whether the text could be read to its end, so that the faults are all there are."""


def read_yaml(text: str) -> YamlDocument:
    """Plain data and positions of a text with one YAML document."""
    faults: list[Fault] = []
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        return YamlDocument(None, (_unprintable(text, error),), is_yaml=False)
    try:
        node = loader.get_node() if loader.check_node() else None
        if node is not None and loader.check_node():
            place = _place(loader.next_mark())
            faults.append(Fault(place.line, place.column, (), "a second document starts here; a file holds one"))
    except yaml.MarkedYAMLError as error:
        return YamlDocument(None, (_syntax(error),), is_yaml=False)
    except (ValueError, OverflowError) as error:  # PyYAML lets them through for escapes such as "\UFFFFFFFF"
        place = _place(loader.get_mark())
        fault = Fault(place.line, place.column, (), f"not YAML: {shown(str(error))}")
        return YamlDocument(None, (fault,), is_yaml=False)
    finally:
        loader.dispose()
    if node is None:
        return YamlDocument(None, (Fault(1, 1, (), "the file is empty"),))
    builder = _Builder(faults)
    try:
        return YamlDocument(builder.build(node, ()), tuple(faults))
    except _TooMuch as error:
        return YamlDocument(None, (*faults, error.fault), is_yaml=False)


class _Loader(yaml.SafeLoader):
    """Composes nodes, and stops before nesting exhausts the stack."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _MOST_LEVELS:
            problem = f"nested more than {_MOST_LEVELS} deep"
            raise yaml.composer.ComposerError(problem=problem, problem_mark=self.next_mark())
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def next_mark(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]


class _TooMuch(ScaletestError):
    """The aliases of a small file can ask for more values than memory holds."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


class _Refused(ScaletestError):
    """A scalar or key that has no plain value."""


class _Builder:
    """Walks the node graph once. Aliases are copied out, so every path has its own positions."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults
        self._built = 0
        self._around: list[int] = []

    def build(self, node: yaml.Node, path: Path) -> Located:
        place = _place(node.start_mark)
        self._built += 1
        if self._built > _MOST_VALUES:
            raise _TooMuch(Fault(place.line, place.column, path, f"more than {_MOST_VALUES} values, aliases included"))
        if id(node) in self._around:
            return self._spoil(place, path, "an alias of something that it is itself a part of")
        if len(self._around) > _MOST_LEVELS:
            return self._spoil(place, path, f"nested more than {_MOST_LEVELS} deep")
        self._around.append(id(node))
        try:
            if isinstance(node, yaml.ScalarNode):
                data = _scalar(node)
                quoted = node.style is not None
                return Located(place, data, written=node.value, quoted=quoted)
            if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
                return self._map(node, path)
            if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
                items = [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
                return Located(place, [item.data for item in items], parts=dict(enumerate(items)))
            raise _Refused(_tag_fault(node.tag))
        except _Refused as refusal:
            return self._spoil(place, path, str(refusal))
        finally:
            self._around.pop()

    def _map(self, node: yaml.MappingNode, path: Path) -> Located:
        keys: dict[str, Position] = {}
        parts: dict[str | int, Located] = {}
        own: dict[str, Position] = {}
        merged: dict[str, tuple[Position, Located]] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            merge = key_node.tag == _TAG + "merge"
            try:
                key = "<<" if merge else _key(key_node)
            except _Refused as refusal:
                self._fault(place, path, str(refusal))
                continue
            twice = key in own
            if twice:
                self._fault(place, (*path, key), f"stands twice; first on line {own[key].line}")
            own.setdefault(key, place)
            if merge:
                merged |= self._merge(value_node, path)
                continue
            value = self.build(value_node, (*path, key))
            if not twice:
                keys[key], parts[key] = place, value
        for key, (place, value) in merged.items():
            if key not in keys:
                keys[key], parts[key] = place, value
        return Located(
            _place(node.start_mark), {key: value.data for key, value in parts.items()}, keys=keys, parts=parts
        )

    def _merge(self, node: yaml.Node, path: Path) -> dict[str, tuple[Position, Located]]:
        """The entries that `<<` brings in; of several maps the first one that has a key wins."""
        maps = node.value if isinstance(node, yaml.SequenceNode) else [node]
        entries: dict[str, tuple[Position, Located]] = {}
        for source in maps:
            value = self.build(source, path)
            if not isinstance(source, yaml.MappingNode):
                self._fault(value.place, (*path, "<<"), "only a map, or a list of maps, can be merged in")
            for key, place in value.keys.items():
                entries.setdefault(key, (place, value.parts[key]))
        return entries

    def _spoil(self, place: Position, path: Path, what: str) -> Located:
        self._fault(place, path, what)
        return Located(place, None, spoiled=True)

    def _fault(self, place: Position, path: Path, what: str) -> None:
        self._faults.append(Fault(place.line, place.column, path, what))


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _Refused("a key must be a word, not a list or a map")
    data = _scalar(node)
    if not isinstance(data, str):
        what = "null" if data is None else ("true" if data else "false") if isinstance(data, bool) else "a number"
        raise _Refused(f"the key {shown(node.value) or '(empty)'} is {what} in YAML; put it in quotes if it is a name")
    return data


def _scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    text: str = node.value
    if node.tag in _TEXT_TAGS:
        return _text(text)
    try:
        match node.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return bool(yaml.SafeLoader.bool_values[text.lower()])
            case "int":
                return _text(text) if ":" in text else _whole(text)
            case "float":
                return _text(text) if ":" in text else _finite(text)
    except (ValueError, KeyError) as error:
        raise _Refused(f"{shown(text) or 'nothing'} is not what its tag says") from error
    raise _Refused(_tag_fault(node.tag))


def _text(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise _Refused(f"{shown(text)} holds half a character (a lone surrogate)")
    return text


def _whole(text: str) -> int:
    digits = text.replace("_", "")
    if _OCTAL.fullmatch(digits):
        raise _Refused(f"{shown(text)} is octal in YAML, because it starts with 0; drop the zero, or quote it as text")
    base = {"0x": 16, "0b": 2}.get(digits.lstrip("+-")[:2].lower(), 10)
    if len(digits) > 100:  # Python refuses to read thousands of digits, and nothing here is that large
        raise _Refused(f"a number of {len(digits)} digits is beyond {_LARGEST_INT}")
    number = int(digits, base)
    if abs(number) > _LARGEST_INT:
        raise _Refused(f"{shown(text)} is beyond {_LARGEST_INT}")
    return number


def _finite(text: str) -> float:
    plain = text.replace("_", "").lower()
    number = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    if number - number != 0:
        raise _Refused(f"must be a finite number, got {shown(text)}")
    return number


def _tag_fault(tag: str) -> str:
    return f"the tag {shown(tag.replace(_TAG, '!!'))} is not allowed here: plain values only"


def _place(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _unprintable(text: str, error: yaml.reader.ReaderError) -> Fault:
    before = text[: error.position]
    line = before.count("\n")
    return Fault(line + 1, error.position - (before.rfind("\n") + 1) + 1, (), _control_character(text[error.position]))


def _control_character(char: str) -> str:
    return f"the character U+{ord(char):04X} is not allowed in YAML"


def _syntax(error: yaml.MarkedYAMLError) -> Fault:
    mark = error.problem_mark or error.context_mark
    place = _place(mark) if mark else Position(1, 1)
    return Fault(place.line, place.column, (), _syntax_words(error))


def _syntax_words(error: yaml.MarkedYAMLError) -> str:
    """PyYAML speaks of tokens and streams; these are the cases that people meet."""
    problem, context = error.problem or "not YAML", error.context or ""
    line = error.context_mark.line + 1 if error.context_mark else 0
    if "'\\t'" in problem:
        return "a tab stands where YAML wants spaces"
    if problem == "mapping values are not allowed here":
        return "a colon cannot stand here: a text with a colon needs quotes, and the fields of one map the same indent"
    if problem.startswith("expected <block end>"):
        return f"this does not fit the indent of what starts on line {line}"
    if closing := re.match(r"expected ',' or '([]}])'", problem):
        return f"a comma or a {closing[1]} is missing in what starts on line {line}"
    if "quoted scalar" in context and "unexpected end" in problem:
        return f"the quote that opens on line {line} is never closed"
    if problem.startswith("could not find expected ':'"):
        return f"a colon is missing after the key on line {line}"
    if special := re.match(r"found character '(.)' that cannot start", problem):
        return f"a text cannot start with {special[1]} unless it is in quotes"
    if problem.startswith("expected the node content"):
        return "a value is missing here"
    words = shown(problem.replace("<stream end>", "the end of the file"))
    return f"{words} ({context}, which starts on line {line})" if context and line else words

"""The part of Go's text/template that a bootstrap needs: fields, `range … end`, comments and trim marks.

A template is checked against the shape of its data when it is read, so rendering it cannot fail.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bigfleet.errors import BigFleetError, ExitStatus

# What there is to ask for: None is a text, a mapping has fields, a tuple of one shape is a list of such.
Shape = None | Mapping[str, Any] | tuple[Any]
# Both are given all the data, and the value that the dot stands for.
_Reader = Callable[[Any, Any], Any]
_Writer = Callable[[Any, Any], str]

_ACTION = re.compile(r"\{\{(?P<trim>-\s)?\s*(?P<action>.*?)\s*(?P<trim_after>\s-)?\}\}", re.DOTALL)
_COMMENT = re.compile(r"/\*.*\*/", re.DOTALL)
_OPERAND = re.compile(r"(?P<root>\$)?\.(?P<field>\w*)")


class TemplateError(BigFleetError, ValueError):
    """A template that asks for something that we do not have."""

    exit_code = ExitStatus.WRONG_USE


class Template:
    """A template that was understood to the last word."""

    def __init__(self, source: str, shape: Mapping[str, Any]) -> None:
        self._shape = shape
        self._writers = self._block(_tokens(source), shape, inside=False)

    def render(self, data: Mapping[str, Any]) -> str:
        return _written(self._writers, data, data)

    def _block(self, tokens: Iterator[tuple[str, str]], dot: Shape, *, inside: bool) -> list[_Writer]:
        """Everything up to the `end` of this block, or of the template."""
        writers: list[_Writer] = []
        for text, action in tokens:
            writers.append(_constant(text))
            keyword, _, operand = action.partition(" ")
            if action == "end" and inside:
                return writers
            if keyword == "range":
                read, shape = self._operand(operand.strip(), dot, action)
                if not isinstance(shape, tuple):
                    raise TemplateError(f"{{{{ {action} }}}}: that is no list")
                writers.append(_repeated(read, self._block(tokens, shape[0], inside=True)))
            elif action and not _COMMENT.fullmatch(action):
                writers.append(_printed(self._operand(action, dot, action)[0]))
        if inside:
            raise TemplateError("a {{ range }} has no {{ end }}")
        return writers

    def _operand(self, text: str, dot: Shape, action: str) -> tuple[_Reader, Shape]:
        """How to read `.`, `.Field` or `$.Field`, and what it is."""
        found = _OPERAND.fullmatch(text)
        shape = self._shape if found and found["root"] else dot
        if found and not found["field"]:
            return _whole(bool(found["root"])), shape
        fields = shape if isinstance(shape, Mapping) else {}
        if not found or found["field"] not in fields:
            known = ", ".join(f".{name}" for name in fields) or "."
            raise TemplateError(f"{{{{ {action} }}}} is unknown: there are {known}, and range … end")
        return _field(bool(found["root"]), found["field"]), fields[found["field"]]


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    """(text, the action after it), without the white space that trim marks take away."""
    position, trimmed = 0, False
    for match in _ACTION.finditer(source):
        text = source[position : match.start()]
        text = text.lstrip() if trimmed else text
        yield text.rstrip() if match["trim"] else text, match["action"]
        position, trimmed = match.end(), bool(match["trim_after"])
    yield source[position:].lstrip() if trimmed else source[position:], ""


def _whole(root: bool) -> _Reader:
    return lambda data, dot: data if root else dot


def _field(root: bool, name: str) -> _Reader:
    return lambda data, dot: (data if root else dot)[name]


def _constant(text: str) -> _Writer:
    return lambda _data, _dot: text


def _printed(read: _Reader) -> _Writer:
    return lambda data, dot: _shown(read(data, dot))


def _repeated(read: _Reader, writers: Sequence[_Writer]) -> _Writer:
    return lambda data, dot: "".join(_written(writers, data, item) for item in read(data, dot))


def _written(writers: Sequence[_Writer], data: Any, dot: Any) -> str:
    return "".join(write(data, dot) for write in writers)


def _shown(value: Any) -> str:
    """As Go prints it: a list as `[a b]`, a record as `{a b}`."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"{{{' '.join(map(_shown, value.values()))}}}"
    return f"[{' '.join(map(_shown, value))}]"

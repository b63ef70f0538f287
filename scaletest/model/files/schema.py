"""JSON Schemas of the documents, and what such a schema says about one place of a document, in plain words."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from scaletest.model.files.problems import Path, either, shown

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "object": "a map of fields",
    "null": "null",
}


class _Generator(GenerateJsonSchema):
    """A field's own name says more than a title made from it."""

    schema_dialect = DIALECT

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def json_schema(document: Any) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a model or typed dict, as its author writes it in YAML or JSON."""
    schema = TypeAdapter(document).json_schema(by_alias=True, schema_generator=_Generator, mode="validation")
    return {"$schema": DIALECT, **schema}


@dataclass(frozen=True)
class SchemaNode:
    """One place of a schema."""

    schema: dict[str, Any]
    definitions: dict[str, Any]

    def at(self, path: Path) -> "SchemaNode | None":
        """What may stand at a path; nothing if the schema does not say."""
        here: SchemaNode | None = self
        for part in path:
            here = here._step(part) if here else None
        return here

    def fields(self) -> dict[str, "SchemaNode"]:
        """The known fields of a map."""
        return {
            name: SchemaNode(schema, self.definitions)
            for choice in self._choices()
            for name, schema in choice.get("properties", {}).items()
        }

    def values(self) -> list[Any]:
        """The values that are allowed, if they can be counted; null is not one of them."""
        found: list[Any] = []
        for choice in self._choices():
            found += [choice["const"]] if "const" in choice else choice.get("enum", [])
        return [value for value in found if value is not None]

    def holders(self, name: str, around: Path = ()) -> Iterator[Path]:
        """Where in the document a field of this name belongs. Lists count as one step."""
        for field, shape in self.fields().items():
            if field == name:
                yield around
            yield from shape.holders(name, (*around, field))
        for choice in self._choices():
            if isinstance(choice.get("items"), dict):
                yield from SchemaNode(choice["items"], self.definitions).holders(name, around)

    def words(self) -> str:
        """`a whole number above 0`, `etcd or kine`, `a number from 0 to 1, or null`."""
        if values := self.values():
            words = either([literal(value) for value in values])
        else:
            kinds = [choice for choice in self._choices() if choice.get("type") != "null"]
            words = either(list(dict.fromkeys(_kind_words(kind) for kind in kinds)))
        nullable = any(choice.get("type") == "null" for choice in self._choices())
        return f"{words}, or null" if nullable and words else words

    def range_words(self) -> str:
        """`above 0`, `from 0 to 1`; empty if any number may stand here, or several kinds of values."""
        ranges = {_range(choice) for choice in self._choices() if choice.get("type") in ("integer", "number")}
        return ranges.pop() if len(ranges) == 1 else ""

    def _step(self, part: str | int) -> "SchemaNode | None":
        for choice in self._choices():
            if isinstance(part, int):
                listed = choice.get("prefixItems", [])
                below = listed[part] if part < len(listed) else choice.get("items")
            else:
                other = next(iter(choice.get("patternProperties", {}).values()), choice.get("additionalProperties"))
                below = choice.get("properties", {}).get(part, other)
            if isinstance(below, dict):
                return SchemaNode(below, self.definitions)
        return None

    def _choices(self) -> list[dict[str, Any]]:
        """The alternatives of a union, references followed; one entry where there is no union."""
        found: list[dict[str, Any]] = []
        waiting = [self.schema]
        while waiting:
            schema = waiting.pop(0)
            inner = [inner for word in ("anyOf", "oneOf", "allOf") for inner in schema.get(word, [])]
            if "$ref" in schema:
                inner.append(self.definitions[schema["$ref"].rsplit("/", 1)[-1]])
            if inner:
                waiting = inner + waiting
            else:
                found.append(schema)
        return found


@cache
def shape_of(document: Any) -> SchemaNode:
    """The shape of a whole document."""
    schema = json_schema(document)
    return SchemaNode(schema, schema.get("$defs", {}))


def literal(value: object) -> str:
    """A value as YAML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return shown(str(value))


def _kind_words(choice: dict[str, Any]) -> str:
    kind = choice.get("type", "")
    words = _TYPES.get(kind, "a value")
    if kind in ("integer", "number"):
        bounds = _range(choice)
        return f"{words}{' of' if bounds.startswith('at ') else ''} {bounds}".strip()
    if kind == "string" and choice.get("minLength"):
        least = choice["minLength"]
        return "text that is not empty" if least == 1 else f"text of {least} letters or more"
    return words


def _range(choice: dict[str, Any]) -> str:
    above, least = choice.get("exclusiveMinimum"), choice.get("minimum")
    below, most = choice.get("exclusiveMaximum"), choice.get("maximum")
    if choice.get("type") == "integer" and above is not None and most is not None:
        least = above + 1
    if least is not None and most is not None:
        return f"from {_number(least)} to {_number(most)}"
    parts = [
        f"{word} {_number(bound)}"
        for word, bound in (("above", above), ("at least", least), ("below", below), ("at most", most))
        if bound is not None
    ]
    return " and ".join(parts)


def _number(value: float) -> str:
    return f"{value:,}" if value >= 100_000 else f"{value:g}"

"""One set of rows as a table for people, or as JSON or YAML for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["table", "json", "yaml", "name"]
NOTHING = "—"


@dataclass(frozen=True)
class Listing:
    """Items as programs want them, and the columns of them that a table shows."""

    kind: str
    items: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    """Heading → key of an item; the first one names it."""
    none_found: str
    """What a table says when there are no items."""
    name: str = ""
    """How `-o name` writes an item, if its first column is not enough: a format of its keys."""

    def show(self, form: Format, *, headers: bool = True) -> None:
        if form == "json":
            write(json.dumps(self._document(), indent=2, ensure_ascii=False) + "\n")
        elif form == "yaml":
            import yaml

            write(yaml.safe_dump(self._document(), sort_keys=False, allow_unicode=True))
        elif form == "name":
            name = self.name or f"{{{next(iter(self.columns.values()))}}}"
            write("".join(f"{name.format_map(item)}\n" for item in self.items))
        elif not self.items:
            say(self.none_found)
        else:
            write(table(self.columns, self.items, headers=headers))

    def _document(self) -> dict[str, Any]:
        return {"kind": self.kind, "items": [dict(item) for item in self.items]}


def table(columns: Mapping[str, str], items: Sequence[Mapping[str, Any]], *, headers: bool = True) -> str:
    """Columns as wide as their widest cell, three spaces apart, as kubectl sets them."""
    rows = [list(columns)] if headers else []
    rows += [[_cell(item.get(key)) for key in columns.values()] for item in items]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    lines = ("   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _cell(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={part}" for key, part in value.items())
    return str(value)


def moment(unix_ns: int) -> str | None:
    """RFC 3339, or None for a moment that never was."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if unix_ns > 0 else None


def write(text: str) -> None:
    sys.stdout.write(text)


def say(text: str) -> None:
    """For people, beside what programs read."""
    sys.stderr.write(f"{text}\n")

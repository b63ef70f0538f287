"""What an interruption or a reclaim costs a Pod: its own annotation, else its PriorityClass's default, else unsaid."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bigfleet.core.quantity import QuantityError, parse_milli

_ANNOTATIONS = {
    "interruptionPenalty": "bigfleet.lucy.sh/interruption-penalty",
    "reclamationPenalty": "bigfleet.lucy.sh/reclamation-penalty",
}
ANNOTATIONS = frozenset(_ANNOTATIONS.values())
# PriorityClass name → CapacityRequest field → dollars as a quantity.
Defaults = Mapping[str, Mapping[str, str]]


class DefaultsError(ValueError):
    """A file of penalty defaults that we cannot read; names the field."""

    exit_code = 2


@dataclass(frozen=True)
class Penalties:
    """The fields to set on a CapacityRequest, and what was wrong with the Pod's annotations."""

    fields: dict[str, str]
    problems: tuple[str, ...]


def penalties_of(pod: Mapping[str, Any], defaults: Defaults) -> Penalties:
    annotations = pod["metadata"].get("annotations") or {}
    of_class = defaults.get(pod["spec"].get("priorityClassName") or "", {})
    fields: dict[str, str] = {}
    problems: list[str] = []
    for field, annotation in _ANNOTATIONS.items():
        value = annotations.get(annotation)
        if value is not None and not _is_quantity(value):
            problems.append(f"annotation {annotation} is not a quantity in dollars: {value[:40]!r}")
            value = None
        value = of_class.get(field) if value is None else value
        if value is not None:
            fields[field] = value
    return Penalties(fields, tuple(problems))


def load_defaults(file: Path | None) -> Defaults:
    """Read `{PriorityClass: {interruptionPenalty: "8", reclamationPenalty: "500m"}}`."""
    if file is None:
        return {}
    try:
        document = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise DefaultsError(f"{file}: {error}") from error
    if not isinstance(document, dict):
        raise DefaultsError(f"{file}: not a mapping of PriorityClass names")
    for name, penalties in document.items():
        if not isinstance(penalties, dict):
            raise DefaultsError(f"{file}: {name}: not a mapping")
        for field, value in penalties.items():
            if field not in _ANNOTATIONS:
                raise DefaultsError(f"{file}: {name}.{field}: there are {', '.join(_ANNOTATIONS)}")
            if not _is_quantity(str(value)):
                raise DefaultsError(f"{file}: {name}.{field}: {value!r} is not a quantity in dollars")
    return {name: {field: str(value) for field, value in fields.items()} for name, fields in document.items()}


def _is_quantity(text: str) -> bool:
    try:
        parse_milli(text)
    except QuantityError:
        return False
    return True

"""What an interruption or a reclaim costs a Pod: its own annotation, else its PriorityClass's default, else unsaid."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from bigfleet.core.quantity import QuantityError, parse_milli
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.podcontroller.pods import INTERRUPTION_PENALTY, RECLAMATION_PENALTY, Pod

_INTERRUPTION, _RECLAMATION = "interruptionPenalty", "reclamationPenalty"
_FIELDS = (_INTERRUPTION, _RECLAMATION)
# PriorityClass name → CapacityRequest field → dollars as a quantity.
Defaults = Mapping[str, Mapping[str, str]]


class DefaultsError(BigFleetError, ValueError):
    """A file of penalty defaults that we cannot read; names the field."""

    exit_code = ExitStatus.WRONG_USE


@dataclass(frozen=True)
class Penalties:
    """The fields to set on a CapacityRequest, and what was wrong with the Pod's annotations."""

    fields: dict[str, str]
    problems: tuple[str, ...]


def penalties_of(pod: Pod, defaults: Defaults) -> Penalties:
    own = pod.metadata.annotations
    of_class = defaults.get(pod.spec.priority_class_name, {})
    fields: dict[str, str] = {}
    problems: list[str] = []
    for field, annotation, said in (
        (_INTERRUPTION, INTERRUPTION_PENALTY, own.interruption_penalty),
        (_RECLAMATION, RECLAMATION_PENALTY, own.reclamation_penalty),
    ):
        value = said
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
            if field not in _FIELDS:
                raise DefaultsError(f"{file}: {name}.{field}: there are {', '.join(_FIELDS)}")
            if not _is_quantity(str(value)):
                raise DefaultsError(f"{file}: {name}.{field}: {value!r} is not a quantity in dollars")
    return {name: {field: str(value) for field, value in fields.items()} for name, fields in document.items()}


def _is_quantity(text: str) -> bool:
    try:
        parse_milli(text)
    except QuantityError:
        return False
    return True

"""Which labels a selector means."""

from collections.abc import Mapping
from typing import Any


def has_labels(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether all the wanted labels are there, as a Service selects its pods."""
    return wanted.items() <= labels.items()


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector means these labels; an empty one means all."""
    if not has_labels(selector.get("matchLabels") or {}, labels):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or [])


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case _:
            return value is None

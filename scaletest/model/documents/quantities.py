"""Kubernetes quantities as users write them in YAML: `500m`, `2Gi`, or a bare number."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from bigfleet.core.quantity import parse_milli


def _as_text(value: object) -> object:
    """`cpu: 2` is fine in Kubernetes, so it is fine here."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


# An exbibyte, or a billion cores: a thousand times the largest machine on sale.
_MOST_MILLI = 2**60 * 1000


def _is_sensible(text: str) -> str:
    if parse_milli(text) <= 0:
        raise ValueError(f"{text} must be above zero")
    if parse_milli(text) > _MOST_MILLI:
        raise ValueError(f"{text} is more than any machine has")
    return text


Quantity = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | float), AfterValidator(_is_sensible)]
"""A quantity above zero, kept as text."""

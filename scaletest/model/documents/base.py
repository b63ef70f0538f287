"""The base of everything a user writes in YAML: frozen, strict, camelCase on disk."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Document(BaseModel):
    """A model that refuses unknown fields and cannot change after it was read.

    A docstring under a field is the field's description in the JSON Schema.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def refuse_all(problems: Iterable[str]) -> None:
    """How a check of a whole map ends: everything that it found in one error, a line for each (explaining.py)."""
    if told := "\n".join(problems):
        raise ValueError(told)

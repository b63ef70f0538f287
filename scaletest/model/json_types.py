"""What a JSON or YAML file can hold, for code that passes such a document on and does not look inside."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

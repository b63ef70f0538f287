"""Kubernetes' own `$(VAR)` expansion in env values, commands and arguments."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value and `$$` by `$`; a reference to an unknown name stays as it is."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables.get(name, match.group(0))

    return _REFERENCE.sub(value, text)

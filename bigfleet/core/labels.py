"""Kubernetes' rules for labels."""

import re
from collections.abc import Iterable

MOST_LABEL_CHARACTERS, _MOST_DOMAIN_CHARACTERS = 63, 253
# Of a text that is refused, which may be of any length.
_SHOWN = 80
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def check_label_key(key: str) -> str:
    """The key, which is a name, and before a slash perhaps a DNS subdomain. Raises ValueError."""
    prefix, slash, name = key.rpartition("/")
    check_label_value(name)
    if slash and (not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > _MOST_DOMAIN_CHARACTERS):
        raise ValueError(
            f"{prefix[:_SHOWN]!r} is no DNS subdomain: at most {_MOST_DOMAIN_CHARACTERS} small letters, digits and "
            "dashes, in parts between dots that start and end with a letter or digit"
        )
    return key


def selector_problem(key: str, values: Iterable[str] = (), key_field: str = "key") -> str:
    """What keeps this from being asked of a node's labels, beginning with the field; empty if nothing does.

    Here a value may be empty, as a label's may.
    """
    try:
        check_label_key(key)
    except ValueError as error:
        return f"{key_field}: {error}"
    for index, value in enumerate(values):
        try:
            if value:
                check_label_value(value)
        except ValueError as error:
            return f"values[{index}]: {error}"
    return ""


def check_label_value(value: str) -> str:
    """The value, which a key's name is written like; an empty one says nothing here. Raises ValueError."""
    if not _NAME.fullmatch(value) or len(value) > MOST_LABEL_CHARACTERS:
        raise ValueError(
            f"{value[:_SHOWN]!r} is no name: at most {MOST_LABEL_CHARACTERS} letters, digits, dashes, underscores and "
            "dots, a letter or digit at both ends"
        )
    return value

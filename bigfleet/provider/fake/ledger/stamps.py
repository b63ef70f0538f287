"""What a shard stamps on a machine tells one story: its figures are those of the need that it names. Pure.

docs/reference/engine.md#fingerprint has the form; its numbers are spelled here without the code that wrote them.
"""

import re
from collections.abc import Mapping

_PREFIX = "bigfleet.lucy.sh/assigned-"
_FINGERPRINT = re.compile(r"p=(-?\d+)\|ipb=(\d+)\|rpb=(\d+)\|reqs=(.*)\|spr=.*", re.DOTALL)
# A requirement of a gang: its key, Same, and no values.
_SAME = re.compile(r"(?:^|;)[^:;]*:5:")
_HALF_A_DOLLAR, _ONE_DOLLAR, _PINNED = 2, 3, 27


def contradictions(stamped: Mapping[str, str]) -> list[str]:
    """The fields that are missing, or that the named need does not have."""
    need = _FINGERPRINT.fullmatch(stamped.get(f"{_PREFIX}need-fingerprint", ""))
    if need is None:
        return ["need-fingerprint"]
    priority, interruption, reclamation, requirements = need.groups()
    wrong = [
        field
        for field, so in (
            ("priority", float(priority)),
            ("interruption-penalty-dollars", _dollars(int(interruption))),
            ("reclamation-penalty-dollars", _dollars(int(reclamation))),
        )
        if _number(stamped.get(f"{_PREFIX}{field}")) != so
    ]
    if bool(stamped.get(f"{_PREFIX}group")) != bool(_SAME.search(requirements)):
        wrong.append("group")
    return wrong


def _dollars(bucket: int) -> float:
    if bucket < _ONE_DOLLAR:
        return 0.5 if bucket == _HALF_A_DOLLAR else 0.0
    return float("inf") if bucket == _PINNED else float(2 ** (bucket - _ONE_DOLLAR))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None

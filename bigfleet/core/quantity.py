"""Kubernetes quantities as exact integer milli-units: `500m` is 500, `1Gi` is 1024³ × 1000."""

import re
from decimal import ROUND_CEILING, Decimal

_GRAMMAR = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]))?$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


class QuantityError(ValueError):
    """Text that is not a Kubernetes quantity."""


def parse_milli(text: str) -> int:
    """The quantity in milli-units, rounded up as Kubernetes rounds."""
    match = _GRAMMAR.match(text)
    if not match:
        raise QuantityError(f"{text!r} is not a Kubernetes quantity")
    number, exponent, suffix = match.groups()
    value = Decimal(number + (exponent or ""))
    if suffix in _BINARY:
        value *= 1024 ** _BINARY[suffix]
    else:
        value = value.scaleb(_DECIMAL[suffix or ""])
    return int((value * 1000).to_integral_value(rounding=ROUND_CEILING))


def format_milli(milli: int) -> str:
    """The shortest plain quantity of this many milli-units: whole units where possible, else `<n>m`."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"

"""Kubernetes quantities as exact integer milli-units: `500m` is 500, `1Gi` is 1024³ × 1000."""

import re
from decimal import ROUND_UP, Context, Decimal

from bigfleet.errors import BigFleetError

_GRAMMAR = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,18})|([KMGTPE]i|[numkMGTPE]))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
# Kubernetes caps a quantity at this many units; a short text such as 1e999999999 must not become a giant integer here.
_LARGEST_MILLI = (2**63 - 1) * 1000
_ARITHMETIC = Context(prec=80)
_FAR_BEYOND_LARGEST = 40  # decimal digits


class QuantityError(BigFleetError, ValueError):
    """Text that is not a Kubernetes quantity."""


def parse_milli(text: str) -> int:
    """The quantity in milli-units, rounded away from zero and capped as Kubernetes does."""
    match = _GRAMMAR.fullmatch(text)
    if not match:
        raise QuantityError(f"{text[:40]!r} is not a Kubernetes quantity")
    number, exponent, suffix = match.groups()
    value = Decimal(number)
    if not value:
        return 0
    scale = int(exponent[1:]) if exponent else _DECIMAL.get(suffix or "", 0)
    largest = _LARGEST_MILLI if value > 0 else -_LARGEST_MILLI
    if value.adjusted() + scale > _FAR_BEYOND_LARGEST:
        return largest
    if value.adjusted() + scale < -_FAR_BEYOND_LARGEST:
        return 1 if value > 0 else -1
    value = _ARITHMETIC.multiply(value.scaleb(scale + 3, _ARITHMETIC), Decimal(1024 ** _BINARY.get(suffix or "", 0)))
    milli = int(value.to_integral_value(rounding=ROUND_UP))
    return largest if abs(milli) > _LARGEST_MILLI else milli


def format_milli(milli: int) -> str:
    """The shortest plain quantity of this many milli-units: whole units where possible, else `<n>m`."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"

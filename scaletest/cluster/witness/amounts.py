"""Kubernetes quantities in whole milli-units, read without the code that is to be checked."""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

Amounts = dict[str, int]

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]))?", re.ASCII)
_SUFFIXES: dict[str, Fraction] = {
    **{
        suffix: Fraction(1000) ** power
        for suffix, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
    },
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=4096)
def milli_of(text: str) -> int:
    """Rounded away from zero, as Kubernetes does; ValueError for what is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is no quantity")
    number, exponent, suffix = match.groups()
    scale = _SUFFIXES[suffix] if suffix else Fraction(10) ** int(exponent or 0)
    milli = Fraction(number) * scale * 1000
    return ceil(milli) if milli > 0 else floor(milli)


def amounts_of(quantities: Mapping[str, object]) -> Amounts:
    """Resource → milli-units."""
    return {name: milli_of(str(text)) for name, text in quantities.items()}

"""Resource vectors: dimension → milli-units. An absent dimension is zero."""

from collections.abc import Mapping

from bigfleet.core.quantity import format_milli, parse_milli

Vector = dict[str, int]
ReadVector = Mapping[str, int]


def parse_vector(quantities: Mapping[str, object]) -> Vector:
    """A vector from quantity strings; raises QuantityError on the first bad one."""
    return {name: parse_milli(str(text)) for name, text in quantities.items()}


def format_vector(vector: ReadVector) -> dict[str, str]:
    return {name: format_milli(milli) for name, milli in vector.items()}


def covers(have: ReadVector, want: ReadVector) -> bool:
    """Whether `have` reaches `want` in every dimension that `want` asks for."""
    return all(have.get(name, 0) >= milli for name, milli in want.items() if milli > 0)


def add(left: ReadVector, right: ReadVector) -> Vector:
    total = dict(left)
    for name, milli in right.items():
        total[name] = total.get(name, 0) + milli
    return total


def subtract(left: ReadVector, right: ReadVector) -> Vector:
    """`left − right`, each dimension no lower than zero."""
    return {name: max(0, milli - right.get(name, 0)) for name, milli in left.items()}


def largest(left: ReadVector, right: ReadVector) -> Vector:
    """The larger of the two in each dimension."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left.keys() | right.keys()}


def scaled(vector: ReadVector, factor: int) -> Vector:
    return {name: milli * factor for name, milli in vector.items()}


def is_zero(vector: ReadVector) -> bool:
    return all(milli <= 0 for milli in vector.values())


def positive(vector: ReadVector) -> Vector:
    """The dimensions above zero: two vectors that ask for the same have equal positive parts."""
    return {name: milli for name, milli in vector.items() if milli > 0}

"""Names that become labels of metrics: the first so many, the others added up, so that no input makes series."""

from collections.abc import Iterator, Mapping

MOST_NAMES = 64
OTHERS = "other"


def named(counts: Mapping[str, int], most: int = MOST_NAMES) -> Iterator[tuple[str, int]]:
    """The first `most` counts in the order of their names, and what is left as one."""
    names = sorted(counts)
    yield from ((name, counts[name]) for name in names[:most])
    if len(names) > most:
        yield OTHERS, sum(counts[name] for name in names[most:])

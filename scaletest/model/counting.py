"""A number and its noun, as people say them: `1 shard`, `2 shards`."""


def noun(count: float, one: str, many: str = "") -> str:
    """The noun alone, for a figure that stands elsewhere or is written otherwise."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str = "") -> str:
    """`1 problem`, `3,000 problems`."""
    return f"{count:,} {noun(count, one, many)}"

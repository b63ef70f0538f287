"""The fencing token on the wire (docs/reference/wire.md#fencing)."""

from typing import NamedTuple


class FencingToken(NamedTuple):
    """What a shard stamps on each mutating call; the empty one bypasses fencing."""

    shard_id: str = ""
    epoch: int = 0
    sequence: int = 0


UNFENCED = FencingToken()

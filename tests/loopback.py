"""Loopback addresses that no other test run on this machine has, and no embedded host."""

from collections.abc import Iterator
from contextlib import contextmanager

from scaletest.host.addresses import claim_network

# Hosts take theirs above these.
_NUMBERS = range(2, 64)


@contextmanager
def own_addresses() -> Iterator[tuple[str, str]]:
    """Two addresses, ours until the end."""
    claim = claim_network(_NUMBERS)
    with claim.socket:
        yield f"127.{claim.network.number}.0.1", f"127.{claim.network.number}.0.2"

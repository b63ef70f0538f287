"""Asks the cluster's shard, all the time, what its engine holds of this cluster."""

import asyncio
from pathlib import Path

import grpc
import structlog

from bigfleet.api.v1alpha1.shardread_pb2 import InspectNeedsRequest
from bigfleet.api.v1alpha1.shardread_pb2_grpc import ShardReadStub
from bigfleet.security import channel
from bigfleet.security.identity import InvalidIdentity
from scaletest.cluster.witness.drawn_needs import held_view
from scaletest.cluster.witness.held_needs import HeldNeeds
from scaletest.model.demand.draw import ordinal_of

# A roll-up interval while something is wrong, three while nothing is: a shard has hundreds of clusters.
_DOUBTFUL_SECONDS, _CALM_SECONDS = 10.0, 30.0
_ANSWER_SECONDS = 10.0
# Of a cluster with more, the first: those of the highest priority.
_MOST_ROWS = 2_000
# Multiples of it fall evenly between two whole numbers.
_GOLDEN = 0.618

log = structlog.get_logger(__name__)


class NeedsReader:
    """A look that could not be made says nothing; without any, the witness shows no figure."""

    def __init__(self, cluster_id: str, shard_addr: str, tls_dir: Path | None, held: HeldNeeds) -> None:
        self._cluster = cluster_id
        self._address = shard_addr
        self._tls_dir = tls_dir
        self._held = held

    async def run(self) -> None:
        if not self._address:
            log.info("what the engine holds is not read: there is no shard")
            return
        # Or all clusters of a shard would ask it in the same moment.
        await asyncio.sleep(_CALM_SECONDS * (ordinal_of(self._cluster) * _GOLDEN % 1))
        while True:
            try:
                async with channel(self._address, self._tls_dir, "shard") as connection:
                    while True:
                        await self.look(ShardReadStub(connection))
                        await asyncio.sleep(_DOUBTFUL_SECONDS if self._held.in_doubt else _CALM_SECONDS)
            except (grpc.aio.AioRpcError, InvalidIdentity, OSError, ValueError) as error:
                reason = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
                log.warning("what the engine holds could not be read", shard=self._address, reason=str(reason))
            # With a new channel, because the certificate may have been renewed.
            await asyncio.sleep(_DOUBTFUL_SECONDS)

    async def look(self, shard: ShardReadStub) -> None:
        """Raises AioRpcError, or ValueError if an answer says nonsense."""
        request = InspectNeedsRequest(cluster_id=self._cluster, limit=_MOST_ROWS)
        rows, total = [], 0
        async for frame in shard.InspectNeeds(request, timeout=_ANSWER_SECONDS):
            if frame.HasField("need"):
                rows.append(held_view(frame.need))
            else:
                total = frame.header.total_needs
        self._held.look(rows, all_told=total <= len(rows))

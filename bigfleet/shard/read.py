"""ShardRead: why is this need unmet? The last cycle's rows, streamed to people's tools, and to a cluster its own.

See docs/reference/wire.md#need-views.
"""

from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import shardread_pb2, shardread_pb2_grpc
from bigfleet.security import require
from bigfleet.shard.convert import need_view_to_wire
from bigfleet.shard.cycle import CycleReport
from bigfleet.shard.provider.quotas import FullSlice


class ShardRead(shardread_pb2_grpc.ShardReadServicer):
    def __init__(self, latest: Callable[[], CycleReport], full_quotas: Callable[[], list[FullSlice]]) -> None:
        self._latest = latest
        self._full_quotas = full_quotas

    async def InspectNeeds(  # noqa: N802 (the wire's name)
        self, request: shardread_pb2.InspectNeedsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[shardread_pb2.InspectNeedsResponse]:
        await _require_reader(context, request.cluster_id)
        if request.limit < 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"limit {request.limit} is negative")
        report = self._latest()
        decisions = report.decisions
        views = decisions.views_of(request.cluster_id) if request.cluster_id else decisions.views
        cluster = request.cluster_id
        header = shardread_pb2.InspectNeedsHeader(
            cycle=report.cycle,
            computed_at_unix_nanos=int(report.computed_at * 1e9),
            total_needs=len(views),
            reclaims_waiting_for_rate=decisions.reclaims_capped.get(cluster, 0),
            reclaims_waiting_for_session=report.without_session.get(cluster, 0),
            full_quotas=[
                shardread_pb2.FullQuota(
                    provider=one.slice.provider, region=one.slice.region, slots=one.slice.slots, taken=one.taken
                )
                for one in self._full_quotas()
            ],
        )
        yield shardread_pb2.InspectNeedsResponse(header=header)
        for view in islice(views, request.limit or None):
            yield shardread_pb2.InspectNeedsResponse(need=need_view_to_wire(view))


async def _require_reader(context: grpc.aio.ServicerContext[Any, Any], cluster: str) -> None:
    """Tools may read everything; a cluster what it has said itself, so it must name itself."""
    identity = await require(context, "readonly", "admin", "cluster")
    if identity is not None and identity.kind == "cluster" and identity.name != cluster:
        await context.abort(
            grpc.StatusCode.PERMISSION_DENIED, f"{identity} may read its own needs only, not those of {cluster!r}"
        )

"""ShardRead: why is this need unmet? The last cycle's rows, streamed to people's tools.

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


class ShardRead(shardread_pb2_grpc.ShardReadServicer):
    def __init__(self, latest: Callable[[], CycleReport]) -> None:
        self._latest = latest

    async def InspectNeeds(  # noqa: N802 (the wire's name)
        self, request: shardread_pb2.InspectNeedsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[shardread_pb2.InspectNeedsResponse]:
        await require(context, "readonly", "admin")
        if request.limit < 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"limit {request.limit} is negative")
        report = self._latest()
        views = report.decisions.views
        if request.cluster_id:
            views = tuple(view for view in views if view.need.cluster == request.cluster_id)
        header = shardread_pb2.InspectNeedsHeader(
            cycle=report.cycle, computed_at_unix_nanos=int(report.computed_at * 1e9), total_needs=len(views)
        )
        yield shardread_pb2.InspectNeedsResponse(header=header)
        for view in islice(views, request.limit or None):
            yield shardread_pb2.InspectNeedsResponse(need=need_view_to_wire(view))

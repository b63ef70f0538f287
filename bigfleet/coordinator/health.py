"""gRPC health beside its HTTP twins: alive with the process, SERVING once a leader is seen.

See docs/reference/wire.md#health.
"""

import asyncio
from collections.abc import Callable

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

COORDINATOR = "bigfleet.v1alpha1.Coordinator"
_POLL_SECONDS = 1.0
_STATUS = {
    True: health_pb2.HealthCheckResponse.SERVING,
    False: health_pb2.HealthCheckResponse.NOT_SERVING,
}


class HealthService:
    """Answers grpc.health.v1 for every client that the server lets in."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def follow(self, ready: Callable[[], bool]) -> None:
        """Keep the answers true, for ever."""
        await self._servicer.set("", _STATUS[True])
        while True:
            await self._servicer.set(COORDINATOR, _STATUS[ready()])
            await asyncio.sleep(_POLL_SECONDS)

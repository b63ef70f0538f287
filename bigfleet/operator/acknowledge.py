"""Tells CapacityRequests that their demand has been sent: status.phase becomes Acknowledged."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

import structlog

from bigfleet.kube import KubeClient, KubeError, NotFound
from bigfleet.kube.resources import CAPACITY_REQUESTS
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.operator.requests import Requests

log = structlog.get_logger(__name__)


class Acknowledger:
    """One batch at a time, beside the roll-ups: an ack never holds up demand.

    Acks use the client's background lane, so that a fill of thousands does not delay node states.
    """

    def __init__(self, kube: KubeClient, requests: Requests, metrics: OperatorMetrics, concurrency: int) -> None:
        self._kube = kube
        self._requests = requests
        self._metrics = metrics
        self._concurrency = concurrency
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()

    def enqueue(self, keys: Iterable[str]) -> None:
        """Acknowledge these with the next batch."""
        self._due.update(dict.fromkeys(keys))
        if self._due:
            self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, {}
            # Roll-ups made during the last batch offered its requests again.
            batch = [key for key in due if self._requests.waits(key)]
            if batch:
                with self._metrics.acknowledge.time():
                    await self._acknowledge(batch)

    async def _acknowledge(self, batch: Iterable[str]) -> None:
        keys = iter(batch)

        async def work() -> None:
            for key in keys:
                await self._acknowledge_one(key)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(work())

    async def _acknowledge_one(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        status = {"phase": "Acknowledged", "acknowledgedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        try:
            await self._kube.patch(CAPACITY_REQUESTS, name, {"status": status}, namespace, "status", background=True)
        except NotFound:
            pass  # its Pod has gone meanwhile
        except KubeError as error:
            # The next roll-up offers it again.
            log.warning("could not acknowledge", request=key, error=str(error))
            return
        else:
            self._metrics.acknowledged.inc()
        self._requests.acknowledged(key)

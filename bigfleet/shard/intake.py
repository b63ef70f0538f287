"""Roll-ups on their way into the needs table: understood, checked, and most often the same as the last one."""

import asyncio
from collections.abc import Callable

import structlog

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.shard.convert import BadRollup, needs_from_wire
from bigfleet.shard.limits import Vocabulary
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.needs import NeedsTable, Verdict

# Larger ones are read in a thread; for smaller ones the way there costs more than the reading.
_INLINE_ROWS = 100

log = structlog.get_logger()


class Intake:
    def __init__(
        self,
        needs: NeedsTable,
        metrics: ShardMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._needs = needs
        self._metrics = metrics
        self._clock = clock
        self._vocabulary = Vocabulary()
        # The roll-up that each cluster's demand is from. An operator repeats it every ten seconds.
        self._accepted: dict[str, capacity_pb2.ClusterCapacityNeeds] = {}

    async def take(self, cluster: str, rollup: capacity_pb2.ClusterCapacityNeeds) -> Verdict | None:
        """What became of it; None if it was rejected."""
        last = self._accepted.get(cluster)
        if last is not None and last.needs == rollup.needs:
            verdict = self._needs.repeat(cluster)
        else:
            try:
                verdict = await self._replace(cluster, rollup)
            except (BadRollup, ValueError) as error:
                self._metrics.rollups.labels("rejected").inc()
                self._metrics.rollups_rejected.labels(cluster).inc()
                log.error("roll-up rejected", cluster=cluster, error=str(error))
                return None
        self._metrics.rollup_quarantined.labels(cluster).set(verdict.held)
        self._metrics.rollups.labels(verdict.outcome).inc()
        if not verdict.accepted:
            log.warning("roll-up held", cluster=cluster, rows=len(rollup.needs), held=verdict.held)
        return verdict

    async def _replace(self, cluster: str, rollup: capacity_pb2.ClusterCapacityNeeds) -> Verdict:
        if len(rollup.needs) <= _INLINE_ROWS:
            needs = needs_from_wire(cluster, rollup)
        else:
            needs = await asyncio.to_thread(needs_from_wire, cluster, rollup)
        self._vocabulary.check(cluster, {name for need in needs for name in (*need.aggregate, *need.min_unit)})
        verdict = self._needs.replace(cluster, needs, self._clock())
        if verdict.accepted:
            self._accepted[cluster] = rollup
        return verdict

"""Roll-ups on their way into the needs table: understood, checked, and most often the same as the last one."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog
from google.protobuf.message import DecodeError

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.core.needs import Need
from bigfleet.rpc.malformed import Malformed
from bigfleet.shard.convert import BadRollup, merged, needs_from_wire
from bigfleet.shard.message_limits import Vocabulary
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.sessions.frames import Rollup
from bigfleet.shard.sessions.needs import UNCHANGED, NeedsTable, RollupVerdict

# If more rows are new they are read in a thread; for fewer the way there costs more than the reading.
_INLINE_ROWS = 100

log = structlog.get_logger()


@dataclass(frozen=True)
class _Accepted:
    """The roll-up that a cluster's demand is from. An operator repeats it every ten seconds, or most of it."""

    needs: bytes | None = None
    by_row: Mapping[bytes, Need] = field(default_factory=dict)


_NOTHING = _Accepted()


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
        self._unchanged = metrics.rollups.labels(UNCHANGED.outcome)
        self._vocabulary = Vocabulary()
        self._accepted: dict[str, _Accepted] = {}

    def check(self, cluster: str, rollup: Rollup) -> None:
        """Raises Malformed unless every row is a message, whatever it says."""
        last = self._accepted.get(cluster, _NOTHING)
        if rollup.needs == last.needs:
            return
        try:
            for row in rollup.rows:
                if row not in last.by_row:
                    capacity_pb2.CapacityNeed.FromString(row)
        except DecodeError as error:
            raise Malformed(f"the request cannot be read: {error}") from error

    def repeats(self, cluster: str, rollup: Rollup) -> bool:
        """Whether it is what the cluster's demand is from; if so, nothing is left to do but to say so."""
        if rollup.needs != self._accepted.get(cluster, _NOTHING).needs:
            return False
        if self._needs.repeat(cluster):
            self._metrics.rollup_quarantined.labels(cluster).set(0)
        self._unchanged.inc()
        self._metrics.clusters.rollup_accepted(cluster)
        return True

    async def take(self, cluster: str, rollup: Rollup) -> RollupVerdict | None:
        """What became of it; None if it was rejected. It must have been checked."""
        if self.repeats(cluster, rollup):
            return UNCHANGED
        try:
            verdict = await self._replace(cluster, rollup)
        except (BadRollup, ValueError) as error:
            self._metrics.rollups.labels("rejected").inc()
            self._metrics.rollups_rejected.labels(cluster).inc()
            log.error("roll-up rejected", cluster=cluster, error=str(error))
            return None
        self._metrics.rollup_quarantined.labels(cluster).set(verdict.held)
        self._metrics.rollups.labels(verdict.outcome).inc()
        if verdict.accepted:
            self._metrics.clusters.rollup_accepted(cluster)
        else:
            log.warning("roll-up held", cluster=cluster, rows=len(rollup.rows), held=verdict.held)
        return verdict

    def forget(self, cluster: str) -> None:
        """Another shard has the cluster: what it asked of us is void."""
        self._accepted.pop(cluster, None)
        self._needs.forget(cluster)

    async def _replace(self, cluster: str, rollup: Rollup) -> RollupVerdict:
        rows, known = rollup.rows, self._accepted.get(cluster, _NOTHING).by_row
        fresh = [number for number, row in enumerate(rows) if row not in known]
        if len(fresh) <= _INLINE_ROWS:
            needs = needs_from_wire(cluster, rows, known)
        else:
            needs = await asyncio.to_thread(needs_from_wire, cluster, rows, known)
        vectors = (vector for number in fresh for vector in (needs[number].aggregate, needs[number].min_unit))
        self._vocabulary.check(cluster, {name for vector in vectors for name in vector})
        verdict = self._needs.replace(cluster, merged(needs), self._clock())
        if verdict.accepted:
            # With the table's own needs it sees at a glance what is the same again; merged rows are none of its own.
            kept = self._needs.of(cluster)
            by_row = dict(zip(rows, kept if len(kept) == len(rows) else needs, strict=True))
            self._accepted[cluster] = _Accepted(rollup.needs, by_row)
        return verdict

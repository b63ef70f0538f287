"""Leads while its own etcd member is the Raft leader, and records that in etcd before it acts."""

import asyncio

import msgspec
import structlog

from bigfleet.coordinator import etcd
from bigfleet.coordinator.etcd import EtcdClient, EtcdUnavailable, MemberStatus
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.store import LEADER_KEY, Claim, Store
from bigfleet.coordinator.tenure import Tenure

_POLL_SECONDS = 0.25

log = structlog.get_logger(__name__)


async def claim_leadership(client: EtcdClient, claim: Claim) -> bool:
    """Record `claim`, unless a later term is recorded already."""
    recorded = await client.get(LEADER_KEY)
    if recorded and recorded.value == claim.record():
        return True
    if recorded and msgspec.json.decode(recorded.value, type=Claim).term > claim.term:
        return False
    revision = recorded.mod_revision if recorded else 0
    return (await client.txn([etcd.unchanged(LEADER_KEY, revision)], [etcd.put(LEADER_KEY, claim.record())])).succeeded


class Leadership:
    """Follows the member's Raft state; `tenure` is set exactly while this coordinator may act as the leader."""

    def __init__(self, client: EtcdClient, metrics: Metrics) -> None:
        self._client = client
        self._metrics = metrics
        self.tenure: Tenure | None = None
        self.ready = False
        """A leader is seen and a read through the quorum works."""

    async def follow(self) -> None:
        """Keep `tenure` and `ready` true to the member's state until cancelled."""
        while True:
            try:
                await self._observe(await self._client.status())
            except EtcdUnavailable as error:
                if self.ready:
                    log.warning("etcd is unavailable", error=str(error))
                self.ready = False
                self.resign()
            await asyncio.sleep(_POLL_SECONDS)

    def resign(self) -> None:
        """Stop acting as the leader."""
        if self.tenure:
            log.warning("no longer leading", term=self.tenure.claim.term)
            self.tenure.end()
            self.tenure = None

    async def _observe(self, status: MemberStatus) -> None:
        self._metrics.raft_term.set(status.raft_term)
        if status.leader != status.member_id:
            self.resign()
        elif self.tenure is None or self.tenure.claim.term != status.raft_term:
            self.resign()
            await self._take_office(Claim(status.member_id, status.raft_term))
        if status.leader == 0:
            self.ready = False
        elif not self.ready:
            await self._client.get(LEADER_KEY)
            self.ready = True

    async def _take_office(self, claim: Claim) -> None:
        if await claim_leadership(self._client, claim):
            store = Store(self._client, claim, self._metrics.applied)
            self.tenure = Tenure(claim, store, self._metrics.pending_instructions)
            log.info("leading", term=claim.term)

"""Leads while its own etcd member is the Raft leader, and records that in etcd before it acts."""

import asyncio
import time
from collections.abc import Callable

import msgspec
import structlog

from bigfleet.coordinator import etcd_client as etcd
from bigfleet.coordinator.etcd_client import EtcdClient, EtcdUnavailable, KeyValue, MemberStatus
from bigfleet.coordinator.handing_out import Wanted
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.store import LEADER_KEY, CoordinatorStore, LeaderClaim
from bigfleet.coordinator.tenure import Tenure
from bigfleet.errors import BigFleetError, ExitStatus

_POLL_SECONDS = 0.25
# Without a leader no coordinator can write: look often.
_ELECTION_POLL_SECONDS = 0.05
_STUCK_SECONDS = 3.0
_HUNG_MEMBER_SECONDS = 10.0

log = structlog.get_logger(__name__)


class CannotServe(BigFleetError):
    """We cannot do our part any more: a new process may."""

    exit_code = ExitStatus.FAILED
    hint = "a restart begins a new term, with a new member process"


async def claim_leadership(
    client: EtcdClient, status: MemberStatus, address: str, now_unix_ns: int
) -> LeaderClaim | None:
    """Record that the member of `status` leads, and answer the record; None if a later term is recorded already."""
    recorded = await client.get(LEADER_KEY)
    last = _claim(recorded) if recorded else LeaderClaim(member=0, term=0)
    if last.cluster == status.cluster_id:
        if last.term > status.raft_term:
            return None
        founded = last.founded_unix_ns
    else:
        founded = max(now_unix_ns, last.founded_unix_ns + 1)
    claim = LeaderClaim(status.member_id, status.raft_term, status.cluster_id, founded, address)
    revision = recorded.mod_revision if recorded else 0
    written = await client.txn([etcd.unchanged(LEADER_KEY, revision)], [etcd.put(LEADER_KEY, claim.record())])
    return claim if written.succeeded else None


class Leadership:
    """Follows the member's Raft state; `tenure` is set exactly while this coordinator may act as the leader."""

    def __init__(
        self,
        client: EtcdClient,
        address: str,
        metrics: Metrics,
        wanted: Wanted,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._address = address
        self._metrics = metrics
        self._wanted = wanted
        self._clock = clock
        self._stuck_since: float | None = None
        self._answered_at: float | None = None
        self._known_office = (0, 0)
        self.tenure: Tenure | None = None
        self.leader_address = ""
        """Where the leader's RPCs are answered, as far as we know."""
        self.ready = False
        """A leader is seen and a read through the quorum works."""

    async def follow(self) -> None:
        """Keep `tenure`, `ready` and `leader_address` true to the member's state until cancelled."""
        while True:
            try:
                await self._observe(await self._status())
            except EtcdUnavailable as error:
                if self.ready:
                    log.warning("etcd is unavailable", error=str(error))
                self.ready = False
                self.resign()
            await asyncio.sleep(_POLL_SECONDS if self.ready else _ELECTION_POLL_SECONDS)

    def resign(self) -> None:
        """Stop acting as the leader."""
        if self.tenure:
            log.warning("no longer leading", term=self.tenure.claim.term)
            self.tenure.end()
            self.tenure = None
            self._metrics.is_leader.set(0)

    async def _status(self) -> MemberStatus:
        """The member's state. One that has started, and then says nothing for long, hangs: we share its fate."""
        try:
            status = await self._client.status()
        except EtcdUnavailable as error:
            if self._answered_at is not None and self._clock() - self._answered_at >= _HUNG_MEMBER_SECONDS:
                raise CannotServe(f"our member has not answered for {_HUNG_MEMBER_SECONDS:g} s") from error
            raise
        self._answered_at = self._clock()
        return status

    async def _observe(self, status: MemberStatus) -> None:
        self._metrics.raft_term.set(status.raft_term)
        if status.leader != status.member_id:
            self.resign()
            self._stuck_since = None
        elif self.tenure is None or self.tenure.claim.term != status.raft_term:
            self.resign()
            await self._take_office(status)
        if status.leader == 0:
            self.ready = False
            self.leader_address, self._known_office = "", (0, 0)
            return
        if (status.leader, status.raft_term) != self._known_office:
            await self._look_who_leads(status)
        if not self.ready:
            await self._client.get(LEADER_KEY)
            self.ready = True

    async def _take_office(self, status: MemberStatus) -> None:
        claim = await claim_leadership(self._client, status, self._address, time.time_ns())
        if claim:
            store = CoordinatorStore(self._client, claim, self._metrics.applied)
            self.tenure = Tenure(claim, store, self._metrics.pending_instructions, self._wanted)
            self._stuck_since = None
            self._metrics.is_leader.set(1)
            log.info("leading", term=claim.term)
            return
        now = self._clock()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        if now - self._stuck_since >= _STUCK_SECONDS:
            await self._hand_over(status)

    async def _hand_over(self, status: MemberStatus) -> None:
        """Our etcd member leads in a term in which this coordinator cannot: hand over to another member."""
        others = [one.id for one in await self._client.members() if one.id != status.member_id and one.name]
        for other in others:
            try:
                await self._client.move_leadership(other)
            except EtcdUnavailable as error:
                log.warning("leadership not taken over", by=f"{other:x}", error=str(error))
            else:
                log.warning("leadership handed over, because we could not lead", to=f"{other:x}")
                self._stuck_since = None
                return
        raise CannotServe(f"a later term than {status.raft_term} is recorded, and no other member can lead")

    async def _look_who_leads(self, status: MemberStatus) -> None:
        """Find the leader's address; a new one records it a moment after its election."""
        recorded = await self._client.get(LEADER_KEY, local=True)
        office = (status.leader, status.raft_term)
        if recorded and ((claim := _claim(recorded)).member, claim.term) == office:
            self.leader_address, self._known_office = claim.address, office


def _claim(recorded: KeyValue) -> LeaderClaim:
    return msgspec.json.decode(recorded.value, type=LeaderClaim)

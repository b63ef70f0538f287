"""How a coordinator gets into the Raft group: it has its state, founds the group with its peers, or is let in again.

A member that comes back with an empty directory has forgotten its votes and must not come back under its old number: it
asks the leader to remove it and to add it anew. Only when every peer says that it is as empty do they found a group.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import grpc
import structlog

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator.etcd_client import EtcdClient, Member
from bigfleet.coordinator.member import MemberOptions
from bigfleet.security import channel

State = Literal["empty", "founding", "member"]
# Trailing metadata beside every "not leader": the name of the coordinator that answers, and its state.
STATE_HEADER = "bigfleet-member"

_ASK_SECONDS = 5.0
_RETRY_SECONDS = 0.5
_RETRIES_BETWEEN_WORDS = 20

log = structlog.get_logger(__name__)


@dataclass
class Announcement:
    """What this coordinator tells its peers about itself."""

    name: str
    state: State = "empty"

    def header(self) -> tuple[str, str]:
        return STATE_HEADER, f"{self.name}={self.state}"


async def readmit(client: EtcdClient, name: str, peer_url: str) -> list[Member]:
    """Remove what is left of a member and add it anew; all members afterwards. Half-done, it can be asked for again."""
    for member in await client.members():
        if member.name == name or peer_url in member.peer_urls:
            await client.remove_member(member.id)
    await client.add_member(peer_url)
    log.info("member added", name=name, peer_url=peer_url)
    return await client.members()


async def find_a_way_in(
    options: MemberOptions, coordinators: Sequence[str], announcement: Announcement
) -> Sequence[Member]:
    """The members of the group that let this one in; none when it has its state, or founds a group."""
    if options.has_state:
        announcement.state = "member"
        return ()
    peers = options.first_members.keys() - {options.name}
    attempt = 0
    while peers:
        answers = await asyncio.gather(*(_ask(address, options) for address in coordinators))
        for answer in answers:
            if isinstance(answer, pb.JoinRaftClusterResponse):
                announcement.state = "member"
                log.info("let in by the leader", members=len(answer.members))
                return [Member(index, one.name, (one.peer_url,)) for index, one in enumerate(answer.members)]
        states = {name: state for answer in answers if isinstance(answer, dict) for name, state in answer.items()}
        if all(states.get(peer) in ("empty", "founding") for peer in peers):
            break
        if attempt % _RETRIES_BETWEEN_WORDS == 0:
            # A group that lost most of its members at once needs a person: ADR-16.
            log.info("waiting for a leader to let us in, or for every peer to be as empty", peers=states)
        attempt += 1
        await asyncio.sleep(_RETRY_SECONDS)
    announcement.state = "founding"
    log.info("founding a group", members=sorted(options.first_members))
    return ()


async def _ask(address: str, options: MemberOptions) -> pb.JoinRaftClusterResponse | Mapping[str, str]:
    """Let in, or the state of the coordinator that answered; nothing when none did."""
    request = pb.JoinRaftClusterRequest(node_id=options.name, raft_address=options.peer_url.partition("//")[2])
    try:
        async with channel(address, options.tls_dir, "coordinator") as dialled:
            answer: pb.JoinRaftClusterResponse = await rpc.CoordinatorStub(dialled).JoinRaftCluster(
                request, timeout=_ASK_SECONDS
            )
            return answer
    except grpc.aio.AioRpcError as error:
        if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE):
            log.warning("a peer does not let us in", address=address, code=error.code().name, reason=error.details())
        said = error.trailing_metadata()
        name, _, state = str(said.get(STATE_HEADER) or "").partition("=") if said else ("", "", "")
        return {name: state} if name else {}

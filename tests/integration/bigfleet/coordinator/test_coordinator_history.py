"""Writes go on while leaders are killed: the recorded history shows no write that was lost, doubled or done late."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.ownership import Domain
from bigfleet.rpc.leaderclient import LeaderClient, NoLeader, Unclear
from tests.integration.bigfleet.coordinator.linearizability import UNCLEAR, Operation, explained
from tests.integration.players.coordinators import Trio, assignment, eventually, unassignment

pytestmark = pytest.mark.integration

DOMAINS = [Domain("topology.bigfleet/rack", f"rack-{number}") for number in range(3)]
SHARDS = ("shard-0", "shard-1")
KILLS = 2
WRITES_BETWEEN_KILLS = 60
_PAUSE_SECONDS = 0.05


class Recorder:
    """Clients that write and read domains at random, and what they were answered."""

    def __init__(self, addresses: list[str], tls_dir: Path, seed: int) -> None:
        self._addresses = addresses
        self._tls_dir = tls_dir
        self._random = random.Random(seed)
        self.histories: dict[Domain, list[Operation]] = {domain: [] for domain in DOMAINS}
        self.acknowledged = 0

    async def write(self, domain: Domain, shard: str) -> None:
        """Assign and unassign one domain, for ever."""
        client = LeaderClient(self._addresses, self._tls_dir)
        try:
            while True:
                assigning = self._random.random() < 0.6
                called = time.monotonic()
                # A write that is under way when the test ends may still take effect.
                answer = UNCLEAR
                try:
                    if assigning:
                        answer = await self._answer(client, "AssignDomain", assignment(domain, shard))
                    else:
                        answer = await self._answer(client, "UnassignDomain", unassignment(domain))
                finally:
                    if answer:
                        self.histories[domain].append(
                            Operation("assign" if assigning else "unassign", called, time.monotonic(), answer, shard)
                        )
                self.acknowledged += answer == "ok"
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await client.close()

    async def read(self) -> None:
        """Look at all domains, for ever."""
        client = LeaderClient(self._addresses, self._tls_dir)
        try:
            while True:
                await self.look(client)
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await client.close()

    async def look(self, client: LeaderClient) -> bool:
        called = time.monotonic()
        try:
            answer = await client.call("ListDomainAssignments", pb.ListDomainAssignmentsRequest(), timeout=2)
        except NoLeader:
            return False
        owners = {Domain(one.topology_key, one.topology_value): one.shard_id for one in answer.assignments}
        for domain, history in self.histories.items():
            history.append(Operation("read", called, time.monotonic(), owners.get(domain, "")))
        return True

    async def _answer(self, client: LeaderClient, method: str, request: object) -> str:
        try:
            await client.call(method, request, timeout=2, again=False)
        except NoLeader:
            return ""
        except Unclear:
            return UNCLEAR
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.ALREADY_EXISTS:
                raise
            return "taken"
        return "ok"


async def test_no_write_is_lost_or_doubled_while_leaders_are_killed(stopped_trio: Trio) -> None:
    async with stopped_trio.running() as trio:
        leader = await trio.leader()
        for shard in SHARDS:
            await leader.report(shard)
        recorder = Recorder([one.options.listen for one in trio.members], leader.identities / "admin", seed=7)
        async with asyncio.TaskGroup() as clients:
            working = [clients.create_task(recorder.write(domain, shard)) for domain in DOMAINS for shard in SHARDS]
            working.append(clients.create_task(recorder.read()))
            for _ in range(KILLS):
                await eventually(more_writes(recorder), seconds=60)
                leader = await trio.leader()
                await leader.kill()
                await eventually(more_writes(recorder), seconds=60)
                await leader.start()
                await eventually(leader.ready, seconds=60)
            for task in working:
                task.cancel()
        last = LeaderClient([one.options.listen for one in trio.members], leader.identities / "admin")
        await eventually(lambda: recorder.look(last))
        await last.close()
    for domain, history in recorder.histories.items():
        assert explained(history), (domain, history)
    assert recorder.acknowledged >= WRITES_BETWEEN_KILLS * KILLS * 2


def more_writes(recorder: Recorder) -> Callable[[], Awaitable[bool] | bool]:
    enough = recorder.acknowledged + WRITES_BETWEEN_KILLS
    return lambda: recorder.acknowledged >= enough

"""A fleet that does not fit into one message is listed page by page, over real sockets."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.shard.provider.client import ProviderClient as ShardsClient
from bigfleet.shard.provider.epoch import Fence
from tests.integration.bigfleet.provider.test_provider_faults import faults
from tests.integration.players.provider_client import ProviderClient, fleet_of, provider_at
from tests.integration.players.shard_client import shard_at
from tests.unit.shard_world import World

S = MachineState
MANY = fleet_of({"idPrefix": "spec", "kind": "small", "count": 2_500, "state": "Speculative"})
FEW = fleet_of({"idPrefix": "spec", "kind": "small", "count": 7, "state": "Speculative"})
FIRST, SECOND, LAST = "spec-small-0", "spec-small-1", "spec-small-6"


async def test_a_shard_lists_a_fleet_of_many_pages(tmp_path: Path) -> None:
    async with provider_at(tmp_path, MANY) as provider:
        async with shard_at(tmp_path, provider, list_page_size=100) as shard:
            await shard.until_metric(2_500, "inventory_machines", state="Speculative")
        lists = await provider.metric("bigfleet_provider_rpcs_total", rpc="List", code="OK")
        assert lists is not None
        assert lists >= 25


class Interrupted(ShardsClient):
    """The shard's way to its provider, with something that happens after the first page."""

    def __init__(self, provider: ProviderClient, page_size: int, happens: Callable[[], Awaitable[None]]) -> None:
        super().__init__(_address(provider), None, Fence("shard-0", 1), page_size)
        self._happens = happens
        self.pages: list[list[str]] = []

    async def list(self, since_revision: bytes) -> pb.MachineList:
        page = await super().list(since_revision)
        self.pages.append([machine.id for machine in page.machines])
        if len(self.pages) == 1:
            await self._happens()
        return page


async def test_a_change_between_two_pages_is_not_lost(tmp_path: Path) -> None:
    async with provider_at(tmp_path, FEW) as provider:

        async def meanwhile() -> None:
            await provider.create(FIRST)
            await provider.until(FIRST, S.IDLE)
            await faults(provider, "--strike", "vanish", "--machine", SECOND, LAST)

        way = Interrupted(provider, 3, meanwhile)
        world = World(tmp_path, other_provider=way)
        await world.reconciler.reconcile()
        await way.close()
        assert {FIRST, SECOND} <= set(way.pages[0])
        assert len(way.pages) > 1
        assert world.inventory.machines.keys() == {f"spec-small-{number}" for number in (0, 2, 3, 4, 5)}
        assert world.state(FIRST) is S.IDLE


@pytest.mark.parametrize("has_revisions", [False, True], ids=["without revisions", "without a cap"])
async def test_a_provider_that_answers_everything_at_once_is_good_enough(tmp_path: Path, has_revisions: bool) -> None:
    async with provider_at(tmp_path, FEW) as provider:
        client = ShardsClient(_address(provider), None, Fence("shard-0", 1), page_size=3)
        answered: list[int] = []
        original = client._stub.List

        async def at_once(request: pb.ListFilter, timeout: float) -> pb.MachineList:
            """As a provider that knows no more than the wire had before."""
            if has_revisions:
                request.max_results = 0
            answer: pb.MachineList = await original(request, timeout=timeout)
            answered.append(len(answer.machines))
            answer.ClearField("more")
            if not has_revisions:
                answer.ClearField("revision")
            return answer

        client._stub.List = at_once
        world = World(tmp_path, other_provider=client)
        assert await world.reconciler.reconcile() == 7
        await client.close()
        assert answered == ([7] if has_revisions else [3, 7])


def _address(provider: ProviderClient) -> str:
    return f"127.0.0.1:{provider.provider.port}"

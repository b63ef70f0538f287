"""What became of the reports to the coordinator, and since when none was taken."""

from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.core.machines import Machine, MachineState
from bigfleet.rpc.leaderclient import NoLeader
from bigfleet.shard import ShardOptions
from bigfleet.shard.cycle import CycleReport
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.listed import Listed
from bigfleet.shard.provider.quotas import Quotas
from bigfleet.shard.reports import CoordinatorClient, Instructions
from tests.unit.shard_world import Clock

TAKEN = pb.ReportAck(coordinator_term=1, acknowledged=True)
NOT_TAKEN = pb.ReportAck(coordinator_term=1)
REFUSED = grpc.aio.AioRpcError(grpc.StatusCode.PERMISSION_DENIED, grpc.aio.Metadata(), grpc.aio.Metadata(), "no")
FAILED = NoLeader("no coordinator leads", {})


class Coordinators:
    """Whoever leads says what it was told to say."""

    def __init__(self) -> None:
        self.answer: pb.ReportAck | Exception = TAKEN

    async def call(self, *_: object) -> pb.ReportAck:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class World:
    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registry = CollectorRegistry()
        self.clock = Clock(100.0)
        domains = Domains(directory)
        self.inventory = Inventory()
        listed = Listed(self.inventory, lambda: None)
        metrics = ShardMetrics(self.registry)
        quotas = Quotas(directory, self.inventory, metrics)
        self.client = CoordinatorClient(
            ShardOptions(plaintext=True, data_dir=directory),
            "127.0.0.1:1",
            1,
            self.inventory,
            CycleReport,
            Instructions(domains, listed, quotas, lambda: None, lambda _: None),
            domains,
            listed,
            lambda: ["k-0"],
            metrics,
            self.clock,
        )
        self.coordinators = Coordinators()
        monkeypatch.setattr(self.client, "_coordinators", self.coordinators)

    async def report(self, answer: pb.ReportAck | Exception) -> bool:
        self.coordinators.answer = answer
        return await self.client._report()

    def count(self, outcome: str) -> float | None:
        return self.registry.get_sample_value("bigfleet_shard_reports_total", {"outcome": outcome})

    @property
    def age(self) -> float | None:
        return self.registry.get_sample_value("bigfleet_shard_report_oldest_seconds")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("answer", "outcome", "answered"),
    [
        (TAKEN, "taken", True),
        (NOT_TAKEN, "refused", True),
        (REFUSED, "refused", True),
        (FAILED, "failed", False),
    ],
    ids=["taken", "not acknowledged", "refused", "no leader"],
)
async def test_each_report_counts_as_what_became_of_it(
    world: World, answer: pb.ReportAck | Exception, outcome: str, answered: bool
) -> None:
    assert await world.report(answer) is answered
    assert {each: world.count(each) for each in ("taken", "refused", "failed")} == {
        each: float(each == outcome) for each in ("taken", "refused", "failed")
    }


async def test_the_age_is_from_the_last_report_that_was_taken(world: World) -> None:
    assert world.age == 0
    world.clock.now += 7
    assert world.age == 7, "from the start, before the first one"
    await world.report(TAKEN)
    assert world.age == 0
    for answer in (REFUSED, FAILED, NOT_TAKEN):
        world.clock.now += 10
        await world.report(answer)
    assert world.age == 30


async def test_the_metrics_say_what_the_last_report_said(world: World) -> None:
    def said(name: str, **labels: str) -> float | None:
        return world.registry.get_sample_value(f"bigfleet_shard_reported_{name}", labels)

    idle = Machine("m-0", MachineState.IDLE, zone="zone-a", host="h")
    elsewhere = replace(idle, id="m-1", zone="zone-b")
    on_its_way = replace(idle, id="m-2", state=MachineState.CREATING, host="")
    for machine in (idle, elsewhere, on_its_way):
        world.inventory.observe(machine)
    await world.report(FAILED)
    assert (said("machines", zone="zone-a"), said("machines", zone="zone-b")) == (2, 1)
    assert said("free_machines") == 2
    world.inventory.vanish("m-1")
    assert said("free_machines") == 2, "nothing was sent since"
    await world.report(TAKEN)
    assert (said("machines", zone="zone-a"), said("machines", zone="zone-b")) == (2, None)
    assert said("free_machines") == 1

"""The shard reports to a coordinator and obeys it, within what it can do; without one it works all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc
from tests.integration.players.ctl import bigfleetctl
from tests.integration.players.provider_client import CLUSTER, fleet_of, provider_at
from tests.integration.players.shard_client import cluster_at, eventually, refusal_at, shard_at, small_need

ZONE = "topology.kubernetes.io/zone"
FLEET = fleet_of(
    {"idPrefix": "idle", "kind": "small", "count": 3, "state": "Idle"},
    {"idPrefix": "idle", "kind": "metal", "count": 2, "state": "Idle"},
)


class Coordinator(coordinator_pb2_grpc.CoordinatorServicer):
    """A leader that remembers reports and sends what it is told to until it is acknowledged."""

    def __init__(self) -> None:
        self.term = 3
        self.reports: list[pb.ShardReport] = []
        self.pending: dict[str, pb.CoordinatorInstruction] = {}
        self.acks: dict[str, pb.InstructAck] = {}
        self.changed = asyncio.Event()
        self.address = ""
        self.refuses = False
        self.quotas = pb.QuotaSlices()
        self.providers: dict[str, str] = {}
        self.asked_for_providers = 0
        self.assign_by = ""
        # Cluster → the other shard that has it.
        self.elsewhere: dict[str, str] = {}

    def instruct(self, instruction_id: str, **payload: Any) -> None:
        self.pending[instruction_id] = pb.CoordinatorInstruction(
            coordinator_term=self.term, instruction_id=instruction_id, **payload
        )

    async def acknowledged(self, instruction_id: str) -> pb.InstructAck:
        await eventually(lambda: instruction_id in self.acks, self.changed)
        return self.acks[instruction_id]

    async def ListProviders(self, request: pb.ListProvidersRequest, context: Any) -> pb.ListProvidersResponse:  # noqa: N802
        self.asked_for_providers += 1
        self.changed.set()
        entries = [pb.ProviderEntry(name=name, address=address) for name, address in self.providers.items()]
        return pb.ListProvidersResponse(providers=entries)

    async def ReportShard(self, request: pb.ShardReport, context: Any) -> pb.ReportAck:  # noqa: N802
        self.reports.append(request)
        for ack in request.instruction_acks:
            self.pending.pop(ack.instruction_id, None)
            self.acks[ack.instruction_id] = ack
        self.changed.set()
        if self.refuses:
            await context.abort(grpc.StatusCode.INTERNAL, "not now")
        return pb.ReportAck(
            coordinator_term=self.term,
            acknowledged=True,
            instructions=self.pending.values(),
            assign_by=self.assign_by,
            quotas=self.quotas,
            clusters_elsewhere=[
                pb.ClusterBinding(cluster_id=one, shard_id=self.elsewhere[one])
                for one in request.clusters
                if one in self.elsewhere
            ],
        )


@asynccontextmanager
async def coordinator_at_work() -> AsyncIterator[Coordinator]:
    coordinator = Coordinator()
    server = grpc.aio.server()
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(coordinator, server)
    coordinator.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield coordinator
    finally:
        await server.stop(None)


def reporting_to(coordinator: Coordinator) -> dict[str, Any]:
    """Options of a shard whose first coordinator is down."""
    return {
        "coordinator_addr": f"127.0.0.1:1,{coordinator.address}",
        "coordinator_heartbeat_interval_seconds": 0.1,
        "cycle_interval_seconds": 0.1,
        "advertise_addr": "shard-0.example:7780",
    }


async def test_a_report_says_who_where_and_what_is_missing(tmp_path: Path) -> None:
    async with (
        coordinator_at_work() as coordinator,
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, **reporting_to(coordinator)) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=5))
        await eventually(lambda: coordinator.reports and coordinator.reports[-1].shortfalls, coordinator.changed)
        report = coordinator.reports[-1]
        assert (report.shard_id, report.shard_address) == ("shard-0", "shard-0.example:7780")
        assert report.shard_epoch == int((tmp_path / "shard" / "epoch").read_text())
        assert report.summary.total_machines == 5
        assert dict(report.summary.per_instance_type_counts) == {"m6i.large": 3, "a3-highgpu-8g": 2}
        assert report.shortfalls[0].deficit.resources["cpu"] == "8"
        assert report.shortfalls[0].priority == 1000


async def test_an_assigned_domain_is_all_the_shard_sees_from_then_on_even_after_a_restart(tmp_path: Path) -> None:
    async with coordinator_at_work() as coordinator, provider_at(tmp_path, FLEET) as provider:
        async with shard_at(tmp_path, provider, **reporting_to(coordinator)) as shard:
            await shard.until_metric(5, "inventory_machines")
            coordinator.instruct("a", assign_domain=pb.AssignDomain(topology_key=ZONE, topology_value="zone-b"))
            assert (await coordinator.acknowledged("a")).outcome == pb.InstructAck.ACCEPTED
            await shard.until_metric(2, "inventory_machines")
        async with shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as alone:
            await alone.until_metric(2, "inventory_machines")


async def test_a_leader_that_assigns_by_a_key_is_told_what_the_provider_lists_whoever_owns_it(tmp_path: Path) -> None:
    async with (
        coordinator_at_work() as coordinator,
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, unassigned_owns="nothing", **reporting_to(coordinator)) as shard,
    ):
        coordinator.assign_by = ZONE

        def reported() -> dict[str, int]:
            listed = coordinator.reports[-1].listed if coordinator.reports else ()
            return {one.topology_value: sum(each.count for each in one.machines) for one in listed}

        await eventually(lambda: reported() == {"zone-a": 3, "zone-b": 2}, coordinator.changed)
        assert await shard.metric("inventory_machines") == 0
        coordinator.instruct("a", assign_domain=pb.AssignDomain(topology_key=ZONE, topology_value="zone-b"))
        await shard.until_metric(2, "inventory_machines")
        seen = len(coordinator.reports)
        await eventually(lambda: len(coordinator.reports) > seen + 1, coordinator.changed)
        assert reported() == {"zone-a": 3, "zone-b": 2}


async def test_a_cluster_of_another_shard_is_sent_away_with_its_demand_until_that_shard_has_gone(
    tmp_path: Path,
) -> None:
    async with (
        coordinator_at_work() as coordinator,
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, **reporting_to(coordinator)) as shard,
    ):
        async with cluster_at(shard, provider) as cluster:
            await cluster.roll_up(small_need(machines=5))
            await shard.until_metric(1, "shortfalls")
            coordinator.elsewhere = {CLUSTER: "shard-7"}
            said = "'kwok-cluster-0' belongs to shard 'shard-7': point its operator's --shard-addr there"
            assert await cluster.ended() == (grpc.StatusCode.FAILED_PRECONDITION, said)
            # The engine wants nothing for it any more, and gives nothing of it away.
            await shard.until_metric(0, "shortfalls")
            await shard.until_metric(3, "cluster_machines", cluster=CLUSTER)
        assert await refusal_at(shard) == (grpc.StatusCode.FAILED_PRECONDITION, said)
        assert CLUSTER in coordinator.reports[-1].clusters, "or the coordinators could not say that it may come"
        coordinator.elsewhere = {}
        seen = len(coordinator.reports)
        await eventually(lambda: len(coordinator.reports) > seen + 1, coordinator.changed)
        async with cluster_at(shard, provider) as back:
            await back.roll_up(small_need(machines=5))
            await shard.until_metric(1, "shortfalls")


async def test_a_quota_bounds_what_is_created_and_people_are_told_also_after_a_restart_without_coordinators(
    tmp_path: Path,
) -> None:
    fleet = fleet_of({"idPrefix": "spec", "kind": "small", "count": 5, "state": "Speculative"})
    async with coordinator_at_work() as coordinator, provider_at(tmp_path, fleet) as provider:
        coordinator.quotas = pb.QuotaSlices(
            slices=[pb.QuotaSlice(provider="default", region="north", slots=2)], provider_regions={"default": "north"}
        )
        north = {"provider": "default", "region": "north"}
        async with shard_at(tmp_path, provider, **reporting_to(coordinator)) as shard:
            await shard.until_metric(2, "quota_slots", **north)
            async with cluster_at(shard, provider) as cluster:
                await cluster.roll_up(small_need(machines=5))
                await cluster.until_configured(2)
                await shard.until_metric(2, "quota_taken", **north)
                await shard.until_metric(1, "shortfalls")
                told = await bigfleetctl("--plaintext", "why", "--cluster", CLUSTER, "--shard-addr", shard.address)
                said = "creates no more machines of provider default, region north: 2 take a slot, and its quota is 2"
                assert said in told.out
        async with (
            shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as alone,
            cluster_at(alone, provider) as cluster,
        ):
            await cluster.roll_up(small_need(machines=5))
            await alone.until_metric(1, "shortfalls")
            await alone.until_metric(2, "quota_taken", **north)


async def test_a_shard_takes_its_providers_from_the_registry_and_knows_them_without_it(tmp_path: Path) -> None:
    async with provider_at(tmp_path, FLEET) as provider:
        options = {"provider_addr": "registry", "cycle_interval_seconds": 0.1}
        async with coordinator_at_work() as coordinator, AsyncExitStack() as stack:
            starting = asyncio.create_task(
                stack.enter_async_context(shard_at(tmp_path, provider, **reporting_to(coordinator) | options))
            )
            await eventually(lambda: coordinator.asked_for_providers, coordinator.changed)
            coordinator.providers = {"aws": f"127.0.0.1:{provider.provider.port}"}
            shard = await starting
            await shard.until_metric(5, "inventory_machines")
            assert await shard.metric("provider_list_errors_total", provider="aws") == 0
        nobody = {"coordinator_addr": "127.0.0.1:1"}
        async with shard_at(tmp_path, provider, **options | nobody) as alone:
            await alone.until_metric(5, "inventory_machines")


async def test_reports_that_the_leader_refuses_do_not_count_as_taken(tmp_path: Path) -> None:
    async with (
        coordinator_at_work() as coordinator,
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, **reporting_to(coordinator)) as shard,
    ):
        await shard.until_at_least(2, "reports_total", outcome="taken")
        coordinator.refuses = True
        await shard.until_at_least(2, "reports_total", outcome="refused")
        taken = await shard.metric("reports_total", outcome="taken")
        await shard.until_at_least(0.5, "report_oldest_seconds")
        assert await shard.metric("reports_total", outcome="taken") == taken


async def test_what_the_shard_cannot_do_it_says_so(tmp_path: Path) -> None:
    async with (
        coordinator_at_work() as coordinator,
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, **reporting_to(coordinator)),
    ):
        coordinator.instruct("move", transfer_ownership=pb.TransferOwnership(machine_ids=["idle-small-0"]))
        coordinator.instruct("quota", reassign_speculative=pb.ReassignSpeculative(machine_ids=["idle-small-0"]))
        coordinator.instruct("drain", cross_shard_drain=pb.CrossShardDrain(machine_ids=["idle-small-0"]))
        coordinator.instruct("bad", assign_domain=pb.AssignDomain(topology_key=ZONE))
        for instruction_id in ("move", "quota", "drain"):
            assert (await coordinator.acknowledged(instruction_id)).outcome == pb.InstructAck.FAILED
        assert (await coordinator.acknowledged("bad")).outcome == pb.InstructAck.REJECTED_INVALID


async def test_a_deposed_coordinator_is_not_obeyed(tmp_path: Path) -> None:
    async with (
        coordinator_at_work() as coordinator,
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, **reporting_to(coordinator)) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await eventually(lambda: len(coordinator.reports) >= 2, coordinator.changed)
        await cluster.send(hello={"cluster_id": "ignored"})
        await cluster.until(lambda: cluster.acks.count("hello") == 2)
        hello = [frame.ack for frame in cluster.frames if frame.ack.echo == "hello"][-1]
        assert hello.coordinator_term == 3
        coordinator.term = 2
        coordinator.instruct("old", assign_domain=pb.AssignDomain(topology_key=ZONE, topology_value="zone-b"))
        seen = len(coordinator.reports)
        await eventually(lambda: len(coordinator.reports) >= seen + 3, coordinator.changed)
        assert coordinator.acks == {}
        assert await shard.metric("inventory_machines") == 5

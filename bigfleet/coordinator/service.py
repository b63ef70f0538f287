"""The Coordinator's RPCs: which identities may call them, what they answer, and with which status they fail.

A coordinator that does not lead answers FAILED_PRECONDITION "not leader"; its trailing metadata name the leader's
address (`bigfleet-leader`), if it knows one.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import grpc
from prometheus_client import Counter

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator.etcd_client import EtcdClient, EtcdUnavailable
from bigfleet.coordinator.leadership import Leadership
from bigfleet.coordinator.membership import Announcement, readmit
from bigfleet.coordinator.ownership import Domain
from bigfleet.coordinator.snapshots import chunks, meta_of
from bigfleet.coordinator.store import Deposed, DomainTaken, Outdated, ProviderRecord, UnknownProvider, UnknownShard
from bigfleet.coordinator.tenure import Tenure
from bigfleet.core.labels import check_label_key, check_label_value
from bigfleet.rpc.leaderclient import LEADER_HEADER, NOT_LEADER
from bigfleet.security import require

Context = grpc.aio.ServicerContext[Any, Any]


class CoordinatorService(rpc.CoordinatorServicer):
    """Answers as the leader, or says that it is none."""

    def __init__(
        self,
        leadership: Leadership,
        announcement: Announcement,
        client: EtcdClient,
        scheme: str,
        reports: Counter,
        now_unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._leadership = leadership
        self._announcement = announcement
        self._client = client
        self._scheme = scheme
        self._reports = reports
        self._now_unix_ns = now_unix_ns

    async def ReportShard(self, request: pb.ShardReport, context: Context) -> pb.ReportAck:  # noqa: N802
        async with self._leading(context) as tenure:
            await _need(context, shard_id=request.shard_id)
            await require(context, "shard", name=request.shard_id)
            instructions = await tenure.report(request, self._now_unix_ns())
            answer = pb.ReportAck(
                coordinator_term=tenure.claim.term,
                acknowledged=True,
                instructions=instructions,
                founded_unix_ns=tenure.claim.founded_unix_ns,
                domains_assigned=await tenure.placing.decided(),
                assign_by=tenure.wanted.assign_by,
                quotas=await tenure.quotas(request.shard_id),
                clusters_elsewhere=_bindings(await tenure.clusters_elsewhere(request)),
            )
        self._reports.labels(request.shard_id).inc()
        return answer

    async def AssignDomain(  # noqa: N802
        self, request: pb.AssignDomainRequest, context: Context
    ) -> pb.AssignDomainResponse:
        await require(context, "admin")
        async with self._leading(context) as tenure:
            await _need(
                context,
                topology_key=request.topology_key,
                topology_value=request.topology_value,
                shard_id=request.shard_id,
            )
            try:
                domain = Domain(check_label_key(request.topology_key), check_label_value(request.topology_value))
            except ValueError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no machine has such a label: {error}")
            await tenure.assign(domain, request.shard_id)
        return pb.AssignDomainResponse()

    async def UnassignDomain(  # noqa: N802
        self, request: pb.UnassignDomainRequest, context: Context
    ) -> pb.UnassignDomainResponse:
        await require(context, "admin")
        async with self._leading(context) as tenure:
            await _need(context, topology_key=request.topology_key, topology_value=request.topology_value)
            await tenure.unassign(Domain(request.topology_key, request.topology_value))
        return pb.UnassignDomainResponse()

    async def RemoveShard(self, request: pb.RemoveShardRequest, context: Context) -> pb.RemoveShardResponse:  # noqa: N802
        await require(context, "admin")
        async with self._leading(context) as tenure:
            await _need(context, shard_id=request.shard_id)
            await tenure.remove_shard(request.shard_id)
            self._reports.remove(request.shard_id)
        return pb.RemoveShardResponse()

    async def SetQuota(self, request: pb.SetQuotaRequest, context: Context) -> pb.SetQuotaResponse:  # noqa: N802
        await require(context, "admin")
        async with self._leading(context) as tenure:
            await _need(context, provider=request.provider, region=request.region, shard_id=request.shard_id)
            if request.slots < 0:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT, f"slots is {request.slots}, it must not be negative"
                )
            async with tenure.changing_quotas() as store:
                await store.set_quota(request.provider, request.region, request.shard_id, request.slots)
        return pb.SetQuotaResponse()

    async def SetProvider(self, request: pb.SetProviderRequest, context: Context) -> pb.SetProviderResponse:  # noqa: N802
        await require(context, "admin")
        async with self._leading(context) as tenure:
            given = request.provider
            await _need(context, name=given.name, address=given.address, region=given.region)
            async with tenure.changing_quotas() as store:
                await store.set_provider(ProviderRecord(given.name, given.address, given.region))
        return pb.SetProviderResponse()

    async def RemoveProvider(  # noqa: N802
        self, request: pb.RemoveProviderRequest, context: Context
    ) -> pb.RemoveProviderResponse:
        await require(context, "admin")
        async with self._leading(context) as tenure:
            await _need(context, name=request.name)
            async with tenure.changing_quotas() as store:
                await store.remove_provider(request.name)
        return pb.RemoveProviderResponse()

    async def ListShards(self, request: pb.ListShardsRequest, context: Context) -> pb.ListShardsResponse:  # noqa: N802, ARG002
        await require(context, "readonly", "admin")
        async with self._leading(context) as tenure:
            heard = {shard_id: known.report.received_at_unix_ns for shard_id, known in tenure.shards.items()}
            entries = [
                pb.ShardRegistryEntry(
                    shard_id=shard.id,
                    address=shard.address,
                    registered_at_unix_ns=shard.registered_at_unix_ns,
                    last_heartbeat_unix_ns=max(shard.last_heartbeat_unix_ns, heard.get(shard.id, 0)),
                )
                for shard in await tenure.store.shards()
            ]
        return pb.ListShardsResponse(shards=entries)

    async def ListDomainAssignments(  # noqa: N802
        self,
        request: pb.ListDomainAssignmentsRequest,  # noqa: ARG002
        context: Context,
    ) -> pb.ListDomainAssignmentsResponse:
        await require(context, "readonly", "admin")
        async with self._leading(context) as tenure:
            owners = await tenure.store.domains()
        return pb.ListDomainAssignmentsResponse(
            assignments=[
                pb.DomainAssignment(topology_key=domain.key, topology_value=domain.value, shard_id=shard_id)
                for domain, shard_id in owners.items()
            ]
        )

    async def ListClusters(self, request: pb.ListClustersRequest, context: Context) -> pb.ListClustersResponse:  # noqa: N802, ARG002
        await require(context, "readonly", "admin")
        async with self._leading(context) as tenure:
            return pb.ListClustersResponse(clusters=_bindings((await tenure.store.ownership()).clusters))

    async def ListQuotas(self, request: pb.ListQuotasRequest, context: Context) -> pb.ListQuotasResponse:  # noqa: N802, ARG002
        await require(context, "readonly", "admin")
        async with self._leading(context) as tenure:
            quotas = await tenure.store.quotas()
        return pb.ListQuotasResponse(
            allocations=[
                pb.QuotaAllocation(provider=quota.provider, region=quota.region, per_shard=quota.per_shard)
                for quota in quotas
            ]
        )

    async def ListProviders(self, request: pb.ListProvidersRequest, context: Context) -> pb.ListProvidersResponse:  # noqa: N802, ARG002
        await require(context, "readonly", "admin", "shard")
        async with self._leading(context) as tenure:
            providers = await tenure.store.providers()
        entries = [pb.ProviderEntry(name=one.name, address=one.address, region=one.region) for one in providers]
        return pb.ListProvidersResponse(providers=entries)

    async def ListShardReports(  # noqa: N802
        self, request: pb.ListShardReportsRequest, context: Context
    ) -> pb.ListShardReportsResponse:
        await require(context, "readonly", "admin")
        async with self._leading(context) as tenure:
            return pb.ListShardReportsResponse(
                reports=[
                    pb.ShardReportSnapshot(
                        shard_id=shard_id,
                        cycle=known.report.cycle,
                        received_at_unix_ns=known.report.received_at_unix_ns,
                        summary=known.report.summary,
                        shortfalls=known.report.shortfalls,
                    )
                    for shard_id, known in sorted(tenure.shards.items())
                    if request.shard_id in ("", shard_id)
                ]
            )

    async def JoinRaftCluster(  # noqa: N802
        self, request: pb.JoinRaftClusterRequest, context: Context
    ) -> pb.JoinRaftClusterResponse:
        identity = await require(context, "admin", "coordinator")
        if identity and identity.kind == "coordinator":
            await require(context, "coordinator", name=request.node_id)
        async with self._leading(context) as tenure:
            await _need(context, node_id=request.node_id, raft_address=request.raft_address)
            if request.node_id == self._announcement.name:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{request.node_id!r} leads: it is in already")
            async with tenure.writing:
                members = await readmit(self._client, request.node_id, f"{self._scheme}://{request.raft_address}")
        return pb.JoinRaftClusterResponse(
            members=[pb.RaftMember(name=one.name, peer_url=url) for one in members for url in one.peer_urls[:1]]
        )

    async def SnapshotSave(  # noqa: N802
        self,
        request: pb.SnapshotSaveRequest,  # noqa: ARG002
        context: Context,
    ) -> AsyncIterator[pb.SnapshotSaveChunk]:
        await require(context, "admin")
        async with self._leading(context):
            meta = meta_of(await self._client.status(), self._now_unix_ns())
            yield pb.SnapshotSaveChunk(meta_json=meta)
            async for chunk in chunks(self._client.snapshot()):
                yield pb.SnapshotSaveChunk(data=chunk)

    @asynccontextmanager
    async def _leading(self, context: Context) -> AsyncIterator[Tenure]:
        """The current tenure; what goes wrong in it ends the call with the status that names it."""
        if self._leadership.tenure is None:
            await self._not_leader(context)
        try:
            yield self._leadership.tenure
        except Deposed:
            self._leadership.resign()
            await self._not_leader(context)
        except (UnknownShard, UnknownProvider) as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except DomainTaken as error:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, str(error))
        except (Outdated, EtcdUnavailable) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    async def _not_leader(self, context: Context) -> NoReturn:
        hints = [self._announcement.header()]
        if self._leadership.leader_address and self._leadership.tenure is None:
            hints.append((LEADER_HEADER, self._leadership.leader_address))
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, NOT_LEADER, tuple(hints))
        raise AssertionError("abort does not return")


async def _need(context: Context, **fields: str) -> None:
    """End the call when a field is empty."""
    missing = [name for name, value in fields.items() if not value]
    if missing:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{', '.join(missing)} must be set")


def _bindings(clusters: Mapping[str, str]) -> list[pb.ClusterBinding]:
    return [pb.ClusterBinding(cluster_id=cluster, shard_id=shard) for cluster, shard in sorted(clusters.items())]

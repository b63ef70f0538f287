"""What the coordinators keep: shards, domains, quotas, providers and the shards' last reports."""

import argparse
import time
from typing import Any

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.ctl.connection import Connection
from bigfleet.ctl.errors import CtlError
from bigfleet.ctl.output import Listing, moment, write

# Three reports of a shard that reports as seldom as it does unless told otherwise.
_SILENT_SECONDS = 30.0


async def shards(connection: Connection, _options: argparse.Namespace) -> Listing:
    async with connection.leader() as leader:
        answer = await leader.read("ListShards", pb.ListShardsRequest())
    items = [
        {
            "shard": one.shard_id,
            "address": one.address,
            "registered": moment(one.registered_at_unix_ns),
            "lastHeartbeat": moment(one.last_heartbeat_unix_ns),
        }
        for one in answer.shards
    ]
    columns = {"SHARD": "shard", "ADDRESS": "address", "REGISTERED": "registered", "LAST_HEARTBEAT": "lastHeartbeat"}
    return Listing("ShardList", items, columns, "No shard has registered yet.")


async def domains(connection: Connection, _options: argparse.Namespace) -> Listing:
    async with connection.leader() as leader:
        answer = await leader.read("ListDomainAssignments", pb.ListDomainAssignmentsRequest())
    items = [
        {"topologyKey": one.topology_key, "topologyValue": one.topology_value, "shard": one.shard_id}
        for one in answer.assignments
    ]
    columns = {"TOPOLOGY_KEY": "topologyKey", "TOPOLOGY_VALUE": "topologyValue", "SHARD": "shard"}
    nothing = "No domain is assigned: every shard owns all machines."
    return Listing("DomainAssignmentList", items, columns, nothing, "{topologyKey}={topologyValue}")


async def clusters(connection: Connection, _options: argparse.Namespace) -> Listing:
    async with connection.leader() as leader:
        answer = await leader.read("ListClusters", pb.ListClustersRequest())
    items = [{"cluster": one.cluster_id, "shard": one.shard_id} for one in answer.clusters]
    return Listing(
        "ClusterList", items, {"CLUSTER": "cluster", "SHARD": "shard"}, "No cluster has come yet.", "{cluster}"
    )


async def quotas(connection: Connection, _options: argparse.Namespace) -> Listing:
    async with connection.leader() as leader:
        answer = await leader.read("ListQuotas", pb.ListQuotasRequest())
    items = [
        {"provider": one.provider, "region": one.region, "shard": shard, "slice": slots}
        for one in answer.allocations
        for shard, slots in sorted(one.per_shard.items())
    ]
    columns = {"PROVIDER": "provider", "REGION": "region", "SHARD": "shard", "SLICE": "slice"}
    return Listing("QuotaList", items, columns, "There are no quotas.", "{provider}/{region}/{shard}")


async def providers(connection: Connection, _options: argparse.Namespace) -> Listing:
    async with connection.leader() as leader:
        answer = await leader.read("ListProviders", pb.ListProvidersRequest())
    items = [{"provider": one.name, "address": one.address, "region": one.region} for one in answer.providers]
    columns = {"PROVIDER": "provider", "ADDRESS": "address", "REGION": "region"}
    return Listing("ProviderList", items, columns, "No provider is registered.")


async def reports(connection: Connection, options: argparse.Namespace) -> Listing:
    async with connection.leader() as leader:
        answer = await leader.read("ListShardReports", pb.ListShardReportsRequest(shard_id=options.shard or ""))
    items = [_report(one) for one in answer.reports]
    columns = {
        "SHARD": "shard",
        "REPORT": "report",
        "RECEIVED": "received",
        "MACHINES": "machines",
        "FREE": "free",
        "SHORTFALLS": "shortfallCount",
        "LACKING": "lacking",
    }
    return Listing("ShardReportList", items, columns, "No shard has reported to this leader yet.")


def _report(one: pb.ShardReportSnapshot) -> dict[str, Any]:
    summary = one.summary
    worst = max(one.shortfalls, key=lambda shortfall: (shortfall.priority, shortfall.age_cycles), default=None)
    return {
        "shard": one.shard_id,
        "report": one.cycle,
        "received": moment(one.received_at_unix_ns),
        "machines": summary.total_machines,
        "free": summary.free_machines,
        "instanceTypes": dict(sorted(summary.per_instance_type_counts.items())),
        "zones": dict(sorted(summary.per_zone_counts.items())),
        "shortfallCount": len(one.shortfalls),
        "lacking": dict(worst.deficit.resources) if worst else {},
        "shortfalls": [
            {
                "priority": shortfall.priority,
                "lacking": dict(shortfall.deficit.resources),
                "cyclesUnmet": shortfall.age_cycles,
            }
            for shortfall in one.shortfalls
        ],
    }


async def assign(connection: Connection, options: argparse.Namespace) -> None:
    request = pb.AssignDomainRequest(topology_key=options.key, topology_value=options.value, shard_id=options.shard)
    async with connection.leader() as leader:
        await leader.change("AssignDomain", request)
    write(f"assigned {options.key}={options.value} → {options.shard}\n")


async def unassign(connection: Connection, options: argparse.Namespace) -> None:
    """The coordinators take a domain twice in their stride; for people it is more likely a slip of the pen."""
    async with connection.leader() as leader:
        answer = await leader.read("ListDomainAssignments", pb.ListDomainAssignmentsRequest())
        assigned = {(one.topology_key, one.topology_value) for one in answer.assignments}
        if (options.key, options.value) not in assigned:
            hint = "run `bigfleetctl list-domain-assignments` to see those that are"
            raise CtlError(f"{options.key}={options.value} is not assigned to any shard", hint)
        await leader.change(
            "UnassignDomain", pb.UnassignDomainRequest(topology_key=options.key, topology_value=options.value)
        )
    write(f"unassigned {options.key}={options.value}\n")


async def remove(connection: Connection, options: argparse.Namespace) -> None:
    """One that still reports would register again at once, and have lost its domains."""
    async with connection.leader() as leader:
        if not options.force:
            answer = await leader.read("ListShards", pb.ListShardsRequest())
            heard = {one.shard_id: one.last_heartbeat_unix_ns for one in answer.shards}
            silent = time.time() - heard.get(options.shard, 0) / 1e9
            if silent < _SILENT_SECONDS:
                raise CtlError(
                    f"{options.shard} reported {max(0.0, silent):.0f} s ago: it would come back with its next report, "
                    "without its domains",
                    f"stop it and wait {_SILENT_SECONDS:.0f} s, or --force",
                )
        await leader.change("RemoveShard", pb.RemoveShardRequest(shard_id=options.shard))
    write(f"removed {options.shard}\n")


async def set_quota(connection: Connection, options: argparse.Namespace) -> None:
    request = pb.SetQuotaRequest(
        provider=options.provider, region=options.region, shard_id=options.shard, slots=options.slots
    )
    async with connection.leader() as leader:
        await leader.change("SetQuota", request)
    write(f"{options.shard} may use {options.slots} slots of {options.provider}/{options.region}\n")


async def set_provider(connection: Connection, options: argparse.Namespace) -> None:
    provider = pb.ProviderEntry(name=options.name, address=options.address, region=options.region)
    async with connection.leader() as leader:
        await leader.change("SetProvider", pb.SetProviderRequest(provider=provider))
    write(f"registered {options.name} at {options.address}\n")


async def remove_provider(connection: Connection, options: argparse.Namespace) -> None:
    async with connection.leader() as leader:
        await leader.change("RemoveProvider", pb.RemoveProviderRequest(name=options.name))
    write(f"removed {options.name}\n")

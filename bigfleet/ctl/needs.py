"""Needs as the shards see them: rows for a table, sentences for people who wait for a Pod."""

import argparse
import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import coordinator_pb2, shardread_pb2, shardread_pb2_grpc
from bigfleet.ctl.connection import Connection
from bigfleet.ctl.errors import CtlError, from_rpc
from bigfleet.ctl.output import Listing, moment, say, write
from bigfleet.ctl.sentences import explain, lingers, name_of


@dataclass
class Inspection:
    """One shard's answer."""

    shard: str
    header: shardread_pb2.InspectNeedsHeader = field(default_factory=shardread_pb2.InspectNeedsHeader)
    views: list[shardread_pb2.NeedView] = field(default_factory=list)


async def needs(connection: Connection, options: argparse.Namespace) -> Listing:
    found = await _inspect_all(connection, options)
    items = [_item(one.shard, view) for one in found for view in one.views if not (options.unmet and view.satisfied)]
    columns = {
        "NEED": "need",
        "CLUSTER": "cluster",
        "PRIORITY": "priority",
        "SATISFIED": "satisfied",
        "MACHINES": "machines",
        "COMING": "coming",
        "LACKING": "lacking",
        "REASON": "reason",
        "CYCLES": "cyclesUnmet",
    }
    return Listing("NeedList", items, columns, "There are no such needs.")


async def why(connection: Connection, options: argparse.Namespace) -> Listing | None:
    """Sentences, unless a program asks."""
    found = [one for one in await _inspect_all(connection, options) if one.header.total_needs or lingers(one.header)]
    views = [(one.shard, view) for one in found for view in one.views if name_of(view).startswith(options.need)]
    if not found:
        asked = f"the shard at {options.shard_addr}" if options.shard_addr else "no shard"
        raise CtlError(
            f"{asked} has no demand of cluster {options.cluster!r}; no other shard was asked"
            if options.shard_addr
            else f"{asked} has demand of cluster {options.cluster!r}",
            "does its operator run, and are there CapacityRequests? kubectl get capacityrequests -A",
        )
    if options.need and not views:
        raise CtlError(f"cluster {options.cluster!r} has no need {options.need!r}", "run `bigfleetctl needs`")
    if options.output != "table":
        return Listing("NeedList", [_item(shard, view) for shard, view in views], {"NEED": "need"}, "")
    for one in found:
        _tell(one, options)
    return None


def _tell(one: Inspection, options: argparse.Namespace) -> None:
    chosen = [view for view in one.views if name_of(view).startswith(options.need)]
    unmet = [view for view in chosen if not view.satisfied]
    age = max(0.0, time.time() - one.header.computed_at_unix_nanos / 1e9)
    kinds = len(one.views)
    write(
        f"Cluster {options.cluster} asks shard {one.shard} for {kinds} kind{'s' * (kinds != 1)} of capacity; "
        f"{len(unmet) or 'none'} of those shown {'is' if len(unmet) < 2 else 'are'} unmet "
        f"(cycle {one.header.cycle}, {age:.0f} s ago).\n"
    )
    for quota in one.header.full_quotas if unmet else ():
        write(
            f"Shard {one.shard} creates no more machines of provider {quota.provider}, region {quota.region or '-'}: "
            f"{quota.taken} take a slot, and its quota is {quota.slots} (bigfleetctl set-quota).\n"
        )
    for line in lingers(one.header):
        write(f"{line}\n")
    shown = chosen if options.need or options.all else unmet
    for view in shown:
        write("\n" + "".join(f"{line}\n" for line in explain(view)))
    if not shown:
        write("If a Pod still waits, its machine may not have joined yet: kubectl get upcomingnodes.\n")


def _item(shard: str, view: shardread_pb2.NeedView) -> dict[str, Any]:
    return {
        "need": name_of(view),
        "cluster": view.cluster_id,
        "shard": shard,
        "priority": view.need.priority,
        "satisfied": view.satisfied,
        "machines": view.claimed_machine_count,
        "coming": view.bootstrap_count + view.provision_count,
        "asked": dict(sorted(view.need.aggregate_resources.items())),
        "lacking": dict(sorted(view.residual_deficit.resources.items())),
        "reason": None if view.satisfied else _REASONS.get(view.unmet_reason, str(view.unmet_reason)),
        "cyclesUnmet": view.age_cycles_unmet,
        "arrived": moment(view.arrival_unix_nanos),
        "why": explain(view),
    }


_REASONS = {number: name for name, number in shardread_pb2.UnmetReason.items()}


async def _inspect_all(connection: Connection, options: argparse.Namespace) -> list[Inspection]:
    """Every shard's rows: which shard a cluster talks to is known only to the two of them."""
    if options.shard_addr:
        addresses = {options.shard_addr: options.shard_addr}
    else:
        async with connection.leader() as leader:
            answer = await leader.read("ListShards", coordinator_pb2.ListShardsRequest())
        addresses = {one.shard_id: one.address for one in answer.shards}
    if not addresses:
        raise CtlError("no shard has registered yet", "ask one directly with --shard-addr HOST:PORT")
    asked = [_inspect(connection, shard, address, options) for shard, address in sorted(addresses.items())]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found = [one for one in answers if isinstance(one, Inspection)]
    failed = [one for one in answers if isinstance(one, BaseException)]
    for error in failed:
        if not isinstance(error, CtlError):
            raise error
        if not found:
            raise error
        say(f"bigfleetctl: {error}")
    return found


async def _inspect(connection: Connection, shard: str, address: str, options: argparse.Namespace) -> Inspection:
    request = shardread_pb2.InspectNeedsRequest(cluster_id=options.cluster or "", limit=options.limit)
    inspection = Inspection(shard)
    try:
        async with connection.shard(address) as dialled:
            async for frame in shardread_pb2_grpc.ShardReadStub(dialled).InspectNeeds(
                request, timeout=connection.timeout
            ):
                if frame.WhichOneof("frame") == "header":
                    inspection.header = frame.header
                else:
                    inspection.views.append(frame.need)
    except grpc.aio.AioRpcError as error:
        told = from_rpc(error)
        raise CtlError(f"shard {shard} at {address}: {told}", told.hint) from error
    return inspection

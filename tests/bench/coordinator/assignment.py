"""A burst of new domains: from the first report that lists them until every shard has been told of its share."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.bench.measuring.report import against, emit
from tests.bench.measuring.running import run
from tests.integration.players.coordinators import Coordinator, eventually, trio_of

KEY = "topology.kubernetes.io/zone"
DOMAINS = 1000
SHARDS = [f"shard-{number}" for number in range(10)]
TRIALS = 5
# A fifth of a heartbeat: what a shard waits for is its next report, not the leader.
BAR_SECONDS = 2.0


async def measure() -> None:
    tools = await toolchain.ensure(["etcd", "etcdutl"])
    told, removed = [], []
    for _ in range(TRIALS):
        with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
            authority = Authority.create("bench")
            trio = trio_of(authority, Path(folder), tools)
            for shard in SHARDS:
                authority.issue(Identity("shard", shard)).write(trio.members[0].identities / shard)
            for member in trio.members:
                member.options = replace(member.options, assign_by=KEY, assign_after_seconds=0.001)
            async with trio.running():
                leader = await trio.leader()
                await eventually(leader.ready)
                told.append(await _appear(leader))
                began = time.monotonic()
                await leader.call("admin", "RemoveShard", pb.RemoveShardRequest(shard_id=SHARDS[0]))
                removed.append(time.monotonic() - began)
    emit(
        "assignment",
        domains=DOMAINS,
        shards=len(SHARDS),
        trials=TRIALS,
        told_median_seconds=round(sorted(told)[TRIALS // 2], 3),
        told_maximum_seconds=against(max(told), BAR_SECONDS),
        removal_maximum_seconds=against(max(removed), BAR_SECONDS),
    )


async def _appear(leader: Coordinator) -> float:
    """Seconds until all shards, which report one after the other without a pause, have been told of all domains."""
    nothing = pb.OwnedDomains()
    for shard in SHARDS:
        await leader.report(shard, domains=nothing)
    listed = [
        pb.DomainHoldings(
            topology_key=KEY,
            topology_value=f"zone-{number}",
            machines=[pb.MachineCount(instance_type="m6i.large", state="SPECULATIVE", count=500)],
        )
        for number in range(DOMAINS)
    ]
    assigned: dict[str, str] = {}
    began = time.monotonic()
    while len(assigned) < DOMAINS:
        for shard in SHARDS:
            answer = await leader.report(shard, domains=nothing, listed=listed)
            for instruction in answer.instructions:
                value = instruction.assign_domain.topology_value
                assert assigned.setdefault(value, shard) == shard
    seconds = time.monotonic() - began
    shares = [sum(1 for owner in assigned.values() if owner == shard) for shard in SHARDS]
    assert shares == [DOMAINS // len(SHARDS)] * len(SHARDS), shares
    return seconds


if __name__ == "__main__":
    run(measure)

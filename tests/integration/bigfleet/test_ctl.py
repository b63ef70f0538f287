"""`bigfleetctl` against real coordinators and shards: what people see, and what they are told when it fails."""

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1.provider_pb2 import Resources
from tests.integration.players.coordinators import Coordinator, Trio, eventually, free_addresses
from tests.integration.players.ctl import Said, bigfleetctl
from tests.integration.players.provider_client import CLUSTER, fleet_of, provider_at
from tests.integration.players.shard_client import cluster_at, shard_at, small_need

pytestmark = pytest.mark.integration


def as_caller(coordinator: Coordinator, identity: str = "admin") -> Any:
    return partial(
        bigfleetctl, "--coordinator", coordinator.options.listen, "--tls-dir", coordinator.identities / identity
    )


def rows(said: Said) -> list[list[str]]:
    assert (said.code, said.err) == (0, "")
    return [line.split() for line in said.out.splitlines()]


async def test_what_the_coordinator_keeps_is_listed_and_changed(lone: Coordinator) -> None:
    ctl = as_caller(lone)
    assert (await ctl("list-shards")).err == "No shard has registered yet.\n"
    shortfall = pb.Shortfall(priority=7, age_cycles=3, deficit=Resources(resources={"cpu": "8"}))
    await lone.report("shard-0", cycle=4, summary=pb.ShardSummary(total_machines=10, free_machines=4))
    await lone.report("shard-1", cycle=2, shortfalls=[shortfall])

    heading, first, _ = rows(await ctl("list-shards"))
    assert heading == ["SHARD", "ADDRESS", "REGISTERED", "LAST_HEARTBEAT"]
    assert first[:2] == ["shard-0", "shard-0:7780"]
    assert rows(await ctl("get", "shard-reports", "--no-headers"))[1][3:] == ["0", "0", "1", "cpu=8"]
    documents = json.loads((await ctl("list-shard-reports", "--shard", "shard-1", "-o", "json")).out)
    assert documents["items"][0]["shortfalls"] == [{"priority": 7, "lacking": {"cpu": "8"}, "cyclesUnmet": 3}]
    assert (await ctl("get", "shards", "-o", "name")).out == "shard-0\nshard-1\n"

    domain = ("--key", "topology.kubernetes.io/zone", "--value", "zone-a")
    assert (await ctl("assign-domain", *domain, "--shard", "shard-0")).out == (
        "assigned topology.kubernetes.io/zone=zone-a → shard-0\n"
    )
    assert yaml.safe_load((await ctl("list-domain-assignments", "-o", "yaml")).out)["items"] == [
        {"topologyKey": "topology.kubernetes.io/zone", "topologyValue": "zone-a", "shard": "shard-0"}
    ]
    taken = await ctl("assign-domain", *domain, "--shard", "shard-1")
    assert taken.code == 1
    assert "belongs to shard 'shard-0' (ALREADY_EXISTS)" in taken.err
    assert "hint: free it first with `bigfleetctl unassign-domain`" in taken.err
    assert (await ctl("get", "domain-assignments", "-o", "name")).out == "topology.kubernetes.io/zone=zone-a\n"
    for wrong in (("--key", "my zone", "--value", "a"), ("--key", "zone", "--value", "a\nb")):
        spaced = await ctl("assign-domain", *wrong, "--shard", "shard-0")
        assert (spaced.code, "no machine has such a label" in spaced.err) == (2, True)
    assert (await ctl("unassign-domain", *domain)).code == 0
    twice = await ctl("unassign-domain", *domain)
    assert (twice.code, "zone=zone-a is not assigned to any shard" in twice.err) == (1, True)

    alive = await ctl("remove-shard", "--shard", "shard-1")
    assert (alive.code, "it would come back with its next report, without its domains" in alive.err) == (1, True)
    assert (await ctl("remove-shard", "--shard", "shard-1", "--force")).out == "removed shard-1\n"
    unknown = await ctl("remove-shard", "--shard", "shard-1")
    assert (unknown.code, "is not registered (NOT_FOUND)" in unknown.err) == (1, True)


async def test_quotas_and_providers_can_be_set_and_seen(lone: Coordinator) -> None:
    ctl = as_caller(lone, "admin")
    for empty in ("list-quotas", "list-providers"):
        assert (await ctl(empty)).code == 0
    await lone.report("shard-0")
    slice_of = ("set-quota", "--provider", "aws", "--region", "eu", "--shard", "shard-0", "--slots")
    assert (await ctl(*slice_of, "5")).out == "shard-0 may use 5 slots of aws/eu\n"
    assert (await ctl("get", "quotas", "-o", "name")).out == "aws/eu/shard-0\n"
    assert (await ctl(*slice_of, "-1")).code == 2
    assert (await ctl(*slice_of, "0")).code == 0
    assert (await ctl("get", "quotas", "-o", "name")).out == ""
    registered = await ctl("set-provider", "--name", "aws", "--address", "aws:7800", "--region", "eu")
    assert registered.out == "registered aws at aws:7800\n"
    assert (await ctl("get", "providers", "-o", "name")).out == "aws\n"
    assert (await ctl("remove-provider", "--name", "aws")).out == "removed aws\n"
    twice = await ctl("remove-provider", "--name", "aws")
    assert (twice.code, "provider 'aws' is not registered (NOT_FOUND)" in twice.err) == (1, True)


async def test_what_fails_is_one_sentence_with_a_hint(lone: Coordinator) -> None:
    denied = await as_caller(lone, "readonly")("remove-shard", "--shard", "shard-0")
    assert denied.code == 1
    assert "bigfleet://readonly may not do this" in denied.err
    assert "bigfleet certs inspect" in denied.err
    (nobody,) = free_addresses(1)
    tls = lone.identities / "admin"
    refused = await bigfleetctl("list-shards", "--coordinator", nobody, "--tls-dir", tls)
    assert (refused.code, "Connection refused" in refused.err) == (1, True)
    assert "BIGFLEET_COORDINATOR" in refused.err
    plain = await bigfleetctl("list-shards", "--plaintext", BIGFLEET_COORDINATOR=lone.options.listen)
    assert (plain.code, "do not agree on TLS" in plain.err) == (1, True)
    metrics = lone.options.metrics_addr
    for how in (("--tls-dir", tls), ("--plaintext",)):
        elsewhere = await bigfleetctl("list-shards", "--coordinator", metrics, *how)
        assert elsewhere.code == 1
    assert f"no server at {metrics} answers as a coordinator: is it the coordinator's port?" in elsewhere.err
    missing = await bigfleetctl("list-shards", "--tls-dir", tls.with_name("nobody"))
    assert (missing.code, "No such file" in missing.err) == (1, True)
    for said in (denied, refused, plain, missing):
        assert "Traceback" not in said.err


async def test_any_coordinator_will_do_and_a_dead_leader_is_found_out(stopped_trio: Trio) -> None:
    async with stopped_trio.running() as trio:
        leader = await trio.leader()
        await leader.report()
        follower, other = trio.others(leader)
        assert [row[0] for row in rows(await as_caller(follower)("list-shards"))] == ["SHARD", "shard-0"]
        addresses = ",".join(one.options.listen for one in (leader, follower, other))
        ctl = partial(bigfleetctl, "--coordinator", addresses, "--tls-dir", leader.identities / "admin")
        await leader.kill()
        await trio.leader([follower, other])
        assert (await ctl("assign-domain", "--key", "k", "--value", "v", "--shard", "shard-0")).code == 0
        other.running_process.send_signal(signal.SIGKILL)
        await other.running_process.wait()

        async def no_quorum() -> bool:
            return not await follower.ready()

        await eventually(no_quorum)
        lost = await ctl("list-shards", "--timeout", "2s")
        assert (lost.code, "no coordinator leads" in lost.err) == (1, True)


async def test_why_is_my_pod_pending(tmp_path: Path) -> None:
    fleet = fleet_of({"idPrefix": "idle", "kind": "small", "count": 3, "state": "Idle"})
    impossible = small_need(machines=1)
    impossible.requirements[0].values[:] = ["z9.mega"]
    async with (
        provider_at(tmp_path, fleet) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        ctl = partial(bigfleetctl, "--plaintext")
        for wrong in (shard.address, f"127.0.0.1:{provider.provider.port}"):
            asked = await ctl("--coordinator", wrong, "list-shards")
            assert asked.code == 1
            assert f"no server at {wrong} answers as a coordinator: is it the coordinator's port?" in asked.err
        asking = ("--cluster", CLUSTER, "--shard-addr", shard.address)
        unknown = await ctl("why", "--cluster", "nowhere", "--shard-addr", shard.address)
        says = f"the shard at {shard.address} has no demand of cluster 'nowhere'; no other shard was asked"
        assert (unknown.code, says in unknown.err) == (1, True)
        await cluster.roll_up(small_need(machines=5), impossible)
        await cluster.until_configured(3)
        await shard.until_metric(2, "shortfalls")

        told = (await ctl("why", *asking)).out
        assert f"asks shard {shard.address} for 2 kinds of capacity; 2 of those shown are unmet" in told
        assert "It lacks cpu 8" in told
        assert "Why: machines that fit exist, but all of them serve demand that comes first" in told
        assert "node.kubernetes.io/instance-type in z9.mega" in told
        assert "Why: the shard knows no machine, in any state, that meets these requirements" in told

        table = rows(await ctl("needs", "--unmet", *asking))
        assert table[0][0] == "NEED"
        assert sorted(row[7] for row in table[1:]) == ["NO_MATCHING_SUPPLY", "PRIORITY_STARVED"]
        one = (await ctl("why", *asking, "--need", table[1][0])).out
        assert one.count("Need ") == 1
        items = json.loads((await ctl("why", *asking, "-o", "json")).out)["items"]
        assert {item["reason"] for item in items} == {"NO_MATCHING_SUPPLY", "PRIORITY_STARVED"}

        await cluster.roll_up(small_need(machines=3))
        await shard.until_metric(0, "shortfalls")
        assert "none of those shown is unmet" in (await ctl("why", *asking)).out

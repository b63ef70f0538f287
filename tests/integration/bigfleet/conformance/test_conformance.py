"""The conformance suite against our own provider, as a command: over plaintext, over TLS, and when things go wrong."""

import asyncio
import json
import signal
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bigfleet.provider.fake.latency import Latencies, Latency
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from tests.integration.bigfleet.conformance.conformance_fleet import FLEET
from tests.integration.players.apiserver import free_ports
from tests.integration.players.provider_client import INSTANT, ProviderClient, provider_at
from tests.patience import eventually

# Long enough that a second call finds a machine on its way.
QUICK = Latencies(*[Latency(0.05, 0.05)] * 4)
COMMAND = (sys.executable, "-m", "bigfleet.cli", "conformance")
LIMITS = ("--limits-quiet-seconds", "0.1")


async def conformance(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(process.communicate(), timeout=120)
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@asynccontextmanager
async def provider(directory: Path, fleet: dict[str, Any] = FLEET, **options: Any) -> AsyncIterator[ProviderClient]:
    async with provider_at(directory, fleet, **({"latencies": QUICK} | options)) as client:
        yield client


def target(client: ProviderClient) -> tuple[str, ...]:
    return "--target", f"127.0.0.1:{client.provider.port}", "--plaintext"


async def test_our_provider_passes_and_is_left_as_it_was_found(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    async with provider(tmp_path, data_dir=tmp_path / "data") as client:
        before = await client.list()
        code, output, errors = await conformance(*target(client), "--junit", str(junit), *LIMITS)
        assert code == 0, output + errors
        after = await client.list()
    assert {m.id: m for m in after.machines} == {m.id: m for m in before.machines}
    assert "✓ FullLifecycle" in output
    assert "machines used: spec-small-0, spec-small-1\nall are as they were found" in output
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "0")
    assert int(suite.get("tests") or 0) == len(suite.findall("testcase")) == output.count("✓")


async def test_our_provider_passes_with_tls_too(tmp_path: Path) -> None:
    authority = Authority.create("test")
    authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]).write(tmp_path / "server")
    authority.issue(Identity("shard", "shard-0")).write(tmp_path / "shard")
    authority.issue(Identity("cluster", "conformance")).write(tmp_path / "cluster")
    tls = ("--tls-dir", str(tmp_path / "shard"), "--shard-id", "shard-0", "-o", "json")
    async with provider(tmp_path, tls_dir=tmp_path / "server") as client:
        here = target(client)[:2]
        phone = ("--phone-home-tls-dir", str(tmp_path / "cluster"))
        code, output, errors = await conformance(*here, *tls, *phone, *LIMITS)
        assert code == 0, [result for result in json.loads(output)["results"] if result["outcome"] == "failed"]
        outcomes = {result["name"]: result["outcome"] for result in json.loads(output)["results"]}
        assert outcomes.pop("FencingStaleEpochRejected") == "passed"
        assert {name for name, outcome in outcomes.items() if outcome == "skipped"} == {
            "ConflictingCallsSerialise",
            "FencingPerShardIsolation",
            "FencingUnknownShardAccepted",
            "FencingZeroTokenBypasses",
            "LargestToken",
            "ParallelRetriesAreOneOperation",
        }

        short = ("--limits-configure-seconds", "0.3", "--limits-drain-seconds", "0.3")
        slow = (*short, "--only", "NodeReadiness", "MetadataHostileMap")
        code, output, errors = await conformance(*here, *tls, *slow)
        assert code == 5, output + errors
        reason = json.loads(output)["results"][1]["reason"]
        assert "see --phone-home-tls-dir" in reason, reason


async def test_a_provider_that_is_never_seen_on_the_way_is_not_blamed_for_it(tmp_path: Path) -> None:
    async with provider(tmp_path, latencies=INSTANT) as client:
        code, output, errors = await conformance(*target(client), "--only", "positions", "-o", "json")
    assert code == 0, output + errors
    results = {result["name"]: result for result in json.loads(output)["results"]}
    assert results.pop("DrainWhileConfiguring")["outcome"] == "passed"  # until its node is Ready, which we say
    for result in results.values():
        assert result["outcome"] == "skipped"
        assert "the provider is too quick" in result["reason"]


async def test_an_interrupted_suite_puts_the_machines_back_and_is_no_pass(tmp_path: Path) -> None:
    slow = Latencies(*[Latency(0.3, 0.3)] * 4)
    junit = tmp_path / "junit.xml"
    async with provider(tmp_path, latencies=slow) as client:
        before = await client.list()
        process = await asyncio.create_subprocess_exec(
            *(*COMMAND, *target(client), "--junit", str(junit), *LIMITS),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

        async def some_machine_moved() -> bool:
            return {m.id: m.state for m in (await client.list()).machines} != {m.id: m.state for m in before.machines}

        await eventually(some_machine_moved, 60)
        process.send_signal(signal.SIGINT)
        output, errors = await asyncio.wait_for(process.communicate(), timeout=120)
        after = await client.list()
    assert process.returncode == 130, output + errors
    assert b"interrupted: putting the machines back" in errors
    assert b"checks were not made" in errors
    assert {m.id: m.state for m in after.machines} == {m.id: m.state for m in before.machines}
    assert ElementTree.parse(junit).getroot()[0].get("tests") is not None


async def test_a_report_that_has_no_place_is_refused_before_anything_moves(tmp_path: Path) -> None:
    async with provider(tmp_path) as client:
        code, _, errors = await conformance(*target(client), "--junit", str(tmp_path / "nope" / "junit.xml"))
    assert (code, "there is no folder" in errors) == (2, True)


async def test_bare_metal_alone_cannot_be_judged_as_a_whole(tmp_path: Path) -> None:
    metal = FLEET | {"machines": [{"idPrefix": "idle", "kind": "metal", "count": 2, "state": "Idle"}]}
    async with provider(tmp_path, metal) as client:
        names = ("DrainOnSpeculative", "DeleteIdempotent", "MetadataHostileMap")
        code, output, errors = await conformance(*target(client), "--only", *names)
    assert code == 5, output + errors
    assert "? DrainOnSpeculative" in output
    assert "the provider does not delete idle-metal-" in output
    assert "– DeleteIdempotent" in output
    assert "✓ MetadataHostileMap" in output
    assert "1 of 3 checks could not be judged" in errors


async def test_a_failed_check_says_what_the_rule_is_and_what_the_provider_said(tmp_path: Path) -> None:
    async with provider(tmp_path, latencies=Latencies(create=Latency(3600, 3600))) as client:
        names = ("--only", "FullLifecycle", "--limits-create-seconds", "0.1")
        limits = ("--limits-drain-seconds", "0.2", "--limits-configure-seconds", "0.2")
        code, output, errors = await conformance(*target(client), *names, *limits)
    assert code == 1, output + errors
    assert "✗ FullLifecycle" in output
    assert "spec-small-0 must get to IDLE within 0.1 s, it is still CREATING" in output
    assert "rule: A Speculative machine is created, configured, drained and deleted" in output
    assert "Create(machine_id=spec-small-0) → OK 'op-1' CREATING" in output
    assert "not as it was found:\n  spec-small-0 was SPECULATIVE" in output


async def test_nobody_there_and_wrong_use_have_their_own_exit_codes() -> None:
    (port,) = free_ports(1)
    unreachable, misspelt, missing, undecided, listed = await asyncio.gather(
        conformance("--target", f"127.0.0.1:{port}", "--plaintext"),
        conformance("--target", "127.0.0.1:1", "--plaintext", "--only", "FullLifecycl"),
        conformance(),
        conformance("--target", "127.0.0.1:1"),
        conformance("--list"),
    )
    assert unreachable[0] == 5
    assert f"nothing answers at 127.0.0.1:{port}" in unreachable[2]
    assert misspelt[0] == 2
    assert "there is no check 'FullLifecycl'" in misspelt[2]
    assert missing[0] == 2
    assert undecided[0] == 2
    assert "give one of --tls-dir" in undecided[2]
    assert listed[0] == 0
    assert "MetadataHostileMap" in listed[1]

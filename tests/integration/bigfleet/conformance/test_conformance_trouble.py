"""A conformance suite that cannot come to its end: nobody is blamed for what was not seen, and reports are written."""

import asyncio
import json
import os
import signal
import xml.etree.ElementTree as ElementTree
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from bigfleet.provider.conformance.suite import all_checks
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from tests.integration.bigfleet.conformance.conformance_fleet import FLEET
from tests.integration.bigfleet.conformance.test_conformance import COMMAND, LIMITS, conformance, provider, target
from tests.integration.players.apiserver import free_ports
from tests.integration.players.provider_client import ProviderClient


@asynccontextmanager
async def provider_process(directory: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A provider that can be killed, and where it listens."""
    fleet = directory / "fleet.json"
    fleet.write_bytes(msgspec.json.encode(FLEET))
    address, metrics = (f"127.0.0.1:{port}" for port in free_ports(2))
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND[:-1], "provider", "--id=fake", "--plaintext", f"--fleet={fleet}"),
        *(f"--listen={address}", f"--metrics-addr={metrics}"),
    )
    try:
        yield address, process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["it dies", "it hangs"])
async def test_a_provider_that_goes_away_has_failed_nothing(tmp_path: Path, number: signal.Signals) -> None:
    junit = tmp_path / "junit.xml"
    async with provider_process(tmp_path) as (address, its_process):
        suite = await asyncio.create_subprocess_exec(
            *(*COMMAND, "--target", address, "--plaintext", "--limits-call-seconds", "2", *LIMITS),
            *("--junit", str(junit)),
            stdout=PIPE,
            stderr=PIPE,
        )
        assert suite.stdout
        first = await suite.stdout.readline()
        its_process.send_signal(number)
        rest, errors = await asyncio.wait_for(suite.communicate(), timeout=120)
    output = (first + rest).decode()
    assert suite.returncode == 5, output + errors.decode()
    assert "✗" not in output
    # What the check was about is told too, in words that may have a dash.
    marks = Counter(line[0] for line in output.splitlines() if line)
    assert marks["?"] == 1, "the check that was running; those that were not made are counted only"
    assert "checks could not be judged: the provider went away during " in errors.decode()
    report = ElementTree.parse(junit).getroot()[0]
    assert (report.get("tests"), report.get("failures")) == (str(len(all_checks())), "0")
    assert int(report.get("errors") or 0) == len(all_checks()) - marks["✓"] - marks["–"]


async def test_one_that_is_out_of_reach_is_told_with_the_reason_in_every_report(tmp_path: Path) -> None:
    Authority.create("test").issue(Identity("shard", "shard-0")).write(tmp_path / "shard")
    tls = ("--tls-dir", str(tmp_path / "shard"), "--shard-id", "shard-0")
    junit = tmp_path / "junit.xml"
    async with provider(tmp_path) as client:
        code, output, errors = await conformance(*target(client)[:2], *tls, "-o", "json", "--junit", str(junit))
    assert code == 5
    reason = f"nothing answers at 127.0.0.1:{client.provider.port} after 5 s: "
    assert reason in errors, errors
    assert "hint: the two ends do not agree on TLS" in errors
    report = json.loads(output)
    assert report["trouble"].startswith(reason)
    assert "handshake failed" in report["trouble"]
    assert {(one["outcome"], one["reason"]) for one in report["results"]} == {
        ("unjudged", f"not made: {report['trouble']}")
    }
    cases = ElementTree.parse(junit).getroot()[0].findall("testcase/error")
    assert {case.get("message") for case in cases} == {f"not made: {report['trouble']}"}
    assert len(cases) == len(report["results"]) == len(all_checks())


async def test_an_identity_that_is_not_the_one_named_is_wrong_use(tmp_path: Path) -> None:
    Authority.create("test").issue(Identity("shard", "shard-0")).write(tmp_path / "shard")
    here = ("--target", "127.0.0.1:1", "--tls-dir", str(tmp_path / "shard"))
    code, _, errors = await conformance(*here, "--shard-id", "shard-1")
    assert (code, "is for bigfleet://shard/shard-0, and --shard-id shard-1 is another" in errors) == (2, True)


async def states(client: ProviderClient) -> dict[str, int]:
    return {machine.id: machine.state for machine in (await client.list()).machines}


async def test_a_suite_whose_output_nobody_takes_ends_and_puts_the_machines_back(tmp_path: Path) -> None:
    async with provider(tmp_path) as client:
        before = await states(client)
        ours, its = os.pipe()
        with os.fdopen(ours) as output:
            try:
                suite = await asyncio.create_subprocess_exec(
                    *(*COMMAND, *target(client), "--only", "lifecycle"), stdout=its, stderr=PIPE
                )
            finally:
                os.close(its)
            assert await asyncio.to_thread(output.readline)
        # From here on nobody reads, as after `| head -1`.
        assert suite.stderr
        errors = (await suite.stderr.read()).decode()
        assert (await suite.wait(), errors.count("\n")) == (5, 1), errors
        assert "could not be judged: the output cannot be written: Broken pipe" in errors
        assert await states(client) == before


async def test_a_full_disk_is_no_pass_and_no_failure(tmp_path: Path) -> None:
    async with provider(tmp_path) as client:
        full = os.open("/dev/full", os.O_WRONLY)
        try:
            suite = await asyncio.create_subprocess_exec(
                *(*COMMAND, *target(client), "--only", "fields", "-o", "json"), stdout=full, stderr=PIPE
            )
        finally:
            os.close(full)
        _, errors = await suite.communicate()
    said = b"conformance: the output cannot be written: No space left on device\n"
    assert (suite.returncode, errors) == (5, said)

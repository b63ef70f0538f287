"""Faults that are set while the provider runs, by the command that people use."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from bigfleet.core.machines import MachineState
from bigfleet.process.flags import parse_options
from bigfleet.provider.fake.faults import Faults
from bigfleet.provider.fake.faults_command import FaultsOptions
from bigfleet.provider.fake.latency import Latency
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from tests.integration.players.provider_client import (
    CLUSTER,
    IDLE,
    INSTANT,
    SPECULATIVE,
    ProviderClient,
    fleet_of,
    provider_at,
    refusal,
)

S = MachineState


async def faults(client: ProviderClient, *arguments: str) -> tuple[int, Any]:
    """Exit code, and what was shown or said."""
    how = () if "--tls-dir" in arguments else ("--plaintext",)
    target = ("--target", f"127.0.0.1:{client.provider.port}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bigfleet.cli", "faults", *target, *how, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(output) if output else errors.decode()


async def test_faults_are_set_and_taken_back_while_the_provider_runs(tmp_path: Path) -> None:
    async with provider_at(tmp_path, faults=Faults(slow_factor=2.0)) as client:
        code, shown = await faults(client, "--stock-out-zones", "zone-a", "--configure-failure-ratio", "1")
        assert (code, shown["faults"]) == (
            0,
            {"configure_failure_ratio": 1.0, "stock_out_zones": ["zone-a"], "slow_factor": 2.0},
        )
        refused, words = await refusal(client.create(SPECULATIVE))
        assert refused is grpc.StatusCode.UNAVAILABLE
        assert "no m6i.large in zone-a: stock-out" in words
        await client.configure(IDLE)
        assert (await client.until(IDLE, S.FAILED)).last_error == "configure: failed by fault injection"
        assert await client.metric("bigfleet_provider_faults_total", fault="stock_out") == 1
        assert await client.metric("bigfleet_provider_faults_total", fault="failed") == 1

        code, shown = await faults(client, "--off")
        assert (code, shown["faults"]) == (0, {"slow_factor": 1.0})
        await client.create(SPECULATIVE)
        await client.until(SPECULATIVE, S.IDLE)

        code, words = await faults(client, "--vanish-rate-per-sec", "-1")
        assert code == 1
        assert "INVALID_ARGUMENT: vanish_rate_per_sec is -1.0" in words
        assert (await faults(client, "--strike", "tickle"))[0] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--slow-factor", "0"], "--slow-factor 0: it must be above 0"),
        (["--count", "3"], "--count says what a strike takes: --strike is missing"),
        (["--machine", "idle-metal-0"], "--machine says what a strike takes: --strike is missing"),
        (["--strike", "lose", "--count", "3", "--share", "0.5"], "--count and --share: which one?"),
        (["--strike", "lose", "--count", "0"], "--count 0: a strike takes one machine at least"),
        (["--strike", "lose", "--share", "2"], "--share 2: it must be above 0, and 1 at most"),
    ],
)
def test_what_would_be_ignored_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(FaultsOptions, "bigfleet faults", ["--target", "127.0.0.1:1", "--plaintext", *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


async def test_a_slow_provider_is_slow_by_its_factor(tmp_path: Path) -> None:
    hourly = replace(INSTANT, create=Latency(1, 1))
    async with provider_at(tmp_path, latencies=hourly, faults=Faults(slow_factor=3600)) as client:
        await client.create(SPECULATIVE)
        await client.until_metric(1, "bigfleet_provider_transitions_in_flight")
        assert (await client.get(SPECULATIVE)).state == S.CREATING


async def test_strikes_choose_by_seed_among_the_machines_that_match(tmp_path: Path) -> None:
    bound = {"kind": "small", "state": "Configured"}
    fleet = fleet_of(
        bound | {"idPrefix": "one", "count": 4, "cluster": CLUSTER},
        bound | {"idPrefix": "two", "count": 4, "cluster": "kwok-cluster-1"},
    )
    ids = [f"{prefix}-small-{number}" for prefix in ("one", "two") for number in range(4)]
    choices = []
    for _ in range(2):
        async with (
            provider_at(tmp_path, fleet, seed=3) as client,
            client.phone_home(ready=ids[:4]),
            client.phone_home("kwok-cluster-1", ready=ids[4:]),
        ):
            await client.until_metric(8, "bigfleet_provider_machines", state="Configured")
            cursor = (await client.list()).revision
            _, lost = await faults(client, "--strike", "lose", "--cluster", CLUSTER, "--share", "0.5")
            code, words = await faults(client, "--strike", "vanish", "--machine", "two-small-1", "two-small-77")
            assert (code, "NOT_FOUND: there is no machine 'two-small-77': none was struck" in words) == (1, True)
            _, gone = await faults(client, "--strike", "vanish", "--machine", "two-small-1", "two-small-2")
            choices.append(lost["struck"])
            assert set(gone["struck"]) == {"two-small-1", "two-small-2"}
            delta = await client.list(since_revision=cursor)
            assert {machine.id for machine in delta.machines} == set(lost["struck"])
            assert set(delta.removed_ids) == set(gone["struck"])
            assert await client.metric("bigfleet_provider_faults_total", fault="vanished") == 2
            # No SPOT machine is there to be interrupted.
            assert (await faults(client, "--strike", "interrupt"))[1]["struck"] == []
    assert choices[0] == choices[1]
    assert len(choices[0]) == 2


async def test_spot_machines_are_interrupted_and_machines_vanish_at_their_rates(tmp_path: Path) -> None:
    fleet = fleet_of({"idPrefix": "c", "kind": "spot", "count": 6, "state": "Configured", "cluster": CLUSTER})
    fleet["kinds"] = fleet["kinds"] | {
        "spot": fleet["kinds"]["small"] | {"capacityType": "Spot", "interruptionProbability": 0.3}
    }
    rates = Faults(spot_interruption_multiplier=3600 * 20)
    ids = [f"c-spot-{number}" for number in range(6)]
    async with provider_at(tmp_path, fleet, faults=rates) as client, client.phone_home(ready=ids):
        await client.until_metric(6, "bigfleet_provider_faults_total", fault="interrupted")
        for machine in (await client.list()).machines:
            assert (machine.state, machine.last_error) == (S.FAILED, "interrupted: spot capacity was taken back")
    async with (
        provider_at(tmp_path, fleet, faults=Faults(vanish_rate_per_sec=10.0)) as client,
        client.phone_home(ready=ids),
    ):
        await client.until_metric(6, "bigfleet_provider_faults_total", fault="vanished")
        assert not (await client.list()).machines


async def test_with_tls_only_an_admin_may_set_faults(tmp_path: Path) -> None:
    authority = Authority.create("test")
    authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]).write(tmp_path / "server")
    authority.issue(Identity("admin")).write(tmp_path / "admin")
    authority.issue(Identity("shard", "shard-0")).write(tmp_path / "shard")
    async with provider_at(tmp_path, tls_dir=tmp_path / "server") as client:
        code, words = await faults(client, "--tls-dir", str(tmp_path / "shard"), "--off")
        assert code == 1
        assert "PERMISSION_DENIED" in words
        assert (await faults(client, "--tls-dir", str(tmp_path / "admin"), "--off"))[0] == 0

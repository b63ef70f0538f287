"""Machines are lost while the run soaks, and only then."""

from pathlib import Path
from typing import Any

import grpc

from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.run_phase import SOAK
from tests.integration.players.provider_client import (
    CLUSTER,
    ProviderClient,
    eventually,
    fleet_of,
    provider_at,
    refusal,
)


def bound(kind: str, count: int) -> dict[str, Any]:
    return {"idPrefix": "conf", "kind": kind, "count": count, "state": "Configured", "cluster": CLUSTER}


async def all_configured(client: ProviderClient, kind: str, count: int) -> None:
    async with client.phone_home(ready=[f"conf-{kind}-{number}" for number in range(count)]):
        await client.until_metric(count, "bigfleet_provider_machines", state="Configured")


async def failed(client: ProviderClient) -> list[Any]:
    return list((await client.list(states=[MachineState.FAILED])).machines)


async def test_nothing_is_lost_outside_the_soak(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(bound("small", 10)), failure_rate_per_sec=5.0) as client:
        await all_configured(client, "small", 10)
        client.provider.phase.set("settle")
        for _ in range(20):
            assert await failed(client) == []

        client.provider.phase.set(SOAK)
        await eventually(lambda: failed(client))
        client.provider.phase.set("evidence")
        lost = await failed(client)
        for _ in range(20):
            assert await failed(client) == lost
        for machine in lost:
            assert machine.last_error == f"lost: failure injected while bound to {CLUSTER}"
            assert not machine.cluster
            assert not machine.HasField("host")


async def test_the_slot_of_a_lost_machine_can_be_filled_anew(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(bound("small", 1)), failure_rate_per_sec=20.0) as client:
        await all_configured(client, "small", 1)
        client.provider.phase.set(SOAK)
        lost = await client.until("conf-small-0", MachineState.FAILED)
        assert (await refusal(client.configure(lost.id)))[0] is grpc.StatusCode.INTERNAL
        assert (await client.create(lost.id)).machine.state == MachineState.CREATING
        assert not (await client.until(lost.id, MachineState.IDLE)).last_error


async def test_a_repaired_machine_returns_to_where_its_kind_comes_from(tmp_path: Path) -> None:
    for kind, origin in (("small", MachineState.SPECULATIVE), ("metal", MachineState.IDLE)):
        fleet = fleet_of(bound(kind, 1))
        async with provider_at(tmp_path, fleet, failure_rate_per_sec=20.0, repair_seconds=0.05) as client:
            await all_configured(client, kind, 1)
            client.provider.phase.set(SOAK)
            repaired = await client.until(f"conf-{kind}-0", origin)
            assert not repaired.last_error
            assert await client.metric("bigfleet_provider_losses_total") == 1


async def test_lost_bare_metal_waits_for_its_repair(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(bound("metal", 1)), failure_rate_per_sec=20.0) as client:
        await all_configured(client, "metal", 1)
        client.provider.phase.set(SOAK)
        lost = await client.until("conf-metal-0", MachineState.FAILED)
        assert (await refusal(client.create(lost.id)))[0] is grpc.StatusCode.INTERNAL

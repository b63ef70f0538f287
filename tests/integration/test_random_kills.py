"""Kill -9 anywhere at random, seeded: in the end inventory, provider and operators agree, and the demand is met.

A seed's schedule is always the same: `BIGFLEET_KILL_SEED=7 BIGFLEET_KILL_SECONDS=120 make test-long` repeats one.
"""

import os
from pathlib import Path

import pytest

from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.integration.random_kills import Kill, fleet_at, schedule

pytestmark = pytest.mark.integration

LONG_SECONDS = float(os.environ.get("BIGFLEET_KILL_SECONDS", "120"))
LONG_SEEDS = [int(os.environ["BIGFLEET_KILL_SEED"])] if "BIGFLEET_KILL_SEED" in os.environ else [1, 2, 3]


def test_a_seed_repeats_its_schedule() -> None:
    assert schedule(7, 60) == schedule(7, 60) != schedule(8, 60)
    assert sum(isinstance(event, Kill) for event in schedule(7, 60)) > 30


async def survive(directory: Path, authority: Authority, tools: toolchain.Toolchain, seed: int, seconds: float) -> None:
    async with fleet_at(directory, authority, tools) as fleet:
        await fleet.agreement()
        await fleet.suffer(schedule(seed, seconds))
        await fleet.agreement()
        print(f"seed {seed}: {fleet.kills.total()} kills in {seconds:g} s: {dict(sorted(fleet.kills.items()))}")
        print(f"ended by themselves: {dict(fleet.ended)}")


async def test_a_dozen_kills_leave_no_trace(
    tmp_path: Path, authority: Authority, etcd_tools: toolchain.Toolchain
) -> None:
    await survive(tmp_path, authority, etcd_tools, seed=20261117, seconds=10)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
async def test_minutes_of_kills_leave_no_trace(
    tmp_path: Path, authority: Authority, etcd_tools: toolchain.Toolchain, seed: int
) -> None:
    await survive(tmp_path, authority, etcd_tools, seed, LONG_SECONDS)

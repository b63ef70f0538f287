"""Kill -9 anywhere at random, seeded: in the end inventory, provider and operators agree, and the demand is met.

A seed's schedule is always the same: `BIGFLEET_KILL_SEED=7 BIGFLEET_KILL_SECONDS=120 make test-long` repeats one.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from bigfleet.kube import KubeClient
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.integration.players.apiserver import ApiServer
from tests.integration.players.random_kills import REAL, Kill, fleet_at, schedule

pytestmark = pytest.mark.integration

LONG_SECONDS = float(os.environ.get("BIGFLEET_KILL_SECONDS", "120"))
LONG_SEEDS = [int(os.environ["BIGFLEET_KILL_SEED"])] if "BIGFLEET_KILL_SEED" in os.environ else [1, 2, 3]


def test_a_seed_repeats_its_schedule() -> None:
    assert schedule(7, 60) == schedule(7, 60) != schedule(8, 60)
    assert sum(isinstance(event, Kill) for event in schedule(7, 60)) > 30


@dataclass(frozen=True)
class Target:
    """What a fleet is built on; the apiserver is empty."""

    directory: Path
    authority: Authority
    tools: toolchain.Toolchain
    apiserver: ApiServer

    async def survive(self, seed: int, seconds: float) -> Counter[str]:
        """So many seconds of kills; who was struck, and how often."""
        async with fleet_at(self.directory, self.authority, self.tools, self.apiserver) as fleet:
            await fleet.agreement()
            await fleet.suffer(schedule(seed, seconds))
            await fleet.agreement()
            print(f"seed {seed}: {fleet.kills.total()} kills in {seconds:g} s: {dict(sorted(fleet.kills.items()))}")
            print(f"ended by themselves: {dict(fleet.ended)}")
            return fleet.kills


@pytest.fixture
def target(
    tmp_path: Path, authority: Authority, etcd_tools: toolchain.Toolchain, apiserver: ApiServer, kube: KubeClient
) -> Target:
    return Target(tmp_path, authority, etcd_tools, apiserver)


async def test_a_dozen_kills_leave_no_trace(target: Target) -> None:
    kills = await target.survive(seed=20261121, seconds=10)
    assert kills[REAL] >= 1


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
async def test_minutes_of_kills_leave_no_trace(target: Target, seed: int) -> None:
    await target.survive(seed, LONG_SECONDS)

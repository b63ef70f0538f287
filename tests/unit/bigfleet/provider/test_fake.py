"""What makes the fake provider believable: latencies, losses, Ready sets."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from math import inf, nan
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake.backend import FakeBackend
from bigfleet.provider.fake.faults import FaultInjector, Faults
from bigfleet.provider.fake.latency import Latencies, Latency
from bigfleet.provider.fake.losses import Losses, Strikes
from bigfleet.provider.fake.observing import Observer
from bigfleet.provider.fake.readiness import ReadySets
from bigfleet.provider.fake.run_phase import SOAK, RunPhase
from bigfleet.provider.fake.server import ProviderOptions
from bigfleet.provider.kit import Lifecycle, MachineRecord, ProviderMetrics, Shape, State, Timeouts
from tests.unit.virtual_time import VirtualTimeLoop

SHAPE = Shape("m6i.large", "zone-a", CapacityType.ON_DEMAND, 1.0, 0.05, {"cpu": "4"})


def test_a_latency_has_the_median_and_p99_it_is_named_by() -> None:
    random = Random(1)
    samples = [Latency(0.5, 2.0).sample(random) for _ in range(20_000)]
    assert median(samples) == pytest.approx(0.5, rel=0.05)
    assert quantiles(samples, n=100)[98] == pytest.approx(2.0, rel=0.1)
    assert min(samples) > 0


def test_the_default_boot_delay_is_at_most_four_seconds_at_p99() -> None:
    random = Random(1)
    boots = [Latencies().create.sample(random) + Latencies().configure.sample(random) for _ in range(20_000)]
    assert quantiles(boots, n=100)[98] <= 4.0


def test_a_latency_whose_p99_is_its_median_is_a_constant() -> None:
    assert {Latency(0.2, 0.2).sample(Random(seed)) for seed in range(10)} == {0.2}


@pytest.mark.parametrize(("median_seconds", "p99_seconds"), [(2, 0.5), (-1, 1), (0, 1), (1, inf), (nan, 1)])
def test_numbers_that_are_no_latency_are_refused(median_seconds: float, p99_seconds: float) -> None:
    with pytest.raises(ValueError, match="a latency"):
        Latency(median_seconds, p99_seconds)


def test_a_failure_ratio_is_a_ratio() -> None:
    with pytest.raises(ValueError, match="configure_failure_ratio"):
        Faults(configure_failure_ratio=1.5)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("failure_rate_per_sec", -1.0),
        ("repair_seconds", float("nan")),
        ("ready_keep_seconds", -0.1),
    ],
)
def test_a_time_or_rate_out_of_range_is_refused_by_name(option: str, value: float) -> None:
    settings: dict[str, Any] = {option: value, "plaintext": True}
    with pytest.raises(ValueError, match=f"{option} is {value}"):
        ProviderOptions(listen="127.0.0.1:0", metrics_addr="127.0.0.1:0", fleet=Path("fleet.json"), **settings)


def test_a_domain_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is not SHARD:KEY=VALUE"):
        ProviderOptions("127.0.0.1:0", "127.0.0.1:0", Path("fleet.json"), plaintext=True, shard_domains=("shard-0",))


def test_plaintext_has_to_be_asked_for() -> None:
    with pytest.raises(ValueError, match="give one of --tls-dir"):
        ProviderOptions("127.0.0.1:0", "127.0.0.1:0", Path("fleet.json"))
    with pytest.raises(ValueError, match="give one of --tls-dir"):
        ProviderOptions("127.0.0.1:0", "127.0.0.1:0", Path("fleet.json"), tls_dir=Path("tls"), plaintext=True)


def losses_in_virtual_time(
    seconds: float, *, machines: int, rate: float, seed: int = 7, act: Callable[[RunPhase], None] | None = None
) -> list[tuple[float, str]]:
    """(time, machine) of each loss when a soak begins at 100 s."""

    async def scenario() -> list[tuple[float, str]]:
        registry = CollectorRegistry()
        state = State()
        inventory = state.inventory
        ready = ReadySets()
        injector = FaultInjector(Faults(), registry, seed=0)
        backend = FakeBackend(ready, Latencies(), injector, seed=0)
        lost: list[tuple[float, str]] = []
        loop = asyncio.get_running_loop()

        class Recorder(Lifecycle):
            def lose(self, machine_id: str, error: str) -> MachineRecord:
                lost.append((loop.time(), machine_id))
                return super().lose(machine_id, error)

        for number in range(machines):
            inventory.put(MachineRecord(f"m-{number}", SHAPE, MachineState.CONFIGURED, host="h", cluster="c"))
        lifecycle = Recorder(state, backend, Timeouts(), ProviderMetrics(registry, inventory))
        strikes = Strikes(inventory, lifecycle, ready, injector, repair_seconds=0)
        losses = Losses(inventory, strikes, injector, registry, rate_per_second=rate, seed=seed)
        phase = RunPhase()
        phase.set("settle")
        task = asyncio.create_task(losses.in_soak(phase))
        await asyncio.sleep(100)
        phase.set(SOAK)
        if act:
            act(phase)
        await asyncio.sleep(seconds)
        task.cancel()
        return lost

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(scenario())


def test_losses_are_evenly_spaced_at_the_rate_of_the_machines_that_are_left() -> None:
    lost = losses_in_virtual_time(180, machines=1000, rate=17 / 60 / 1000)
    times = [100.0, *(time for time, _ in lost)]
    assert len(lost) == pytest.approx(51, abs=2)
    for number, (before, after) in enumerate(pairwise(times)):
        assert after - before == pytest.approx(60_000 / 17 / (1000 - number), rel=0.01)


def test_the_same_seed_loses_the_same_machines() -> None:
    first = losses_in_virtual_time(60, machines=50, rate=0.01)
    assert first == losses_in_virtual_time(60, machines=50, rate=0.01)
    assert first != losses_in_virtual_time(60, machines=50, rate=0.01, seed=8)
    assert len({machine for _, machine in first}) == len(first) > 10


def test_a_soak_that_ends_before_the_first_loss_falls_due_loses_nothing() -> None:
    def end_soon(phase: RunPhase) -> None:
        asyncio.get_running_loop().call_later(0.5, phase.set, "evidence")

    assert losses_in_virtual_time(60, machines=1, rate=1.0, act=end_soon) == []


async def test_a_waiter_is_woken_by_a_whole_set_and_by_a_delta() -> None:
    ready = ReadySets()
    by_set, by_delta = (asyncio.ensure_future(ready.wait("c", name)) for name in ("a", "b"))
    await asyncio.sleep(0)
    ready.replace("c", ["a"])
    await by_set
    assert not by_delta.done()
    ready.change("c", ["b"], [])
    await by_delta
    await ready.wait("c", "a")
    assert ready.size("c") == 2


class Departures(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[str, str, bool]] = []

    def departed(self, cluster: str, machine_id: str, gone: bool) -> None:
        self.told.append((cluster, machine_id, gone))


def test_departures_are_told_but_what_is_forgotten_or_dropped_is_not_one() -> None:
    departures = Departures()
    ready = ReadySets(departures)
    ready.replace("c", ["a", "b", "d", "e", "f"])
    ready.replace("c", ["b", "d", "e", "f"])
    ready.change("c", [], ["b", "f", "never-there"], unready=["f"])
    ready.forget("c", "d")
    ready.drop("c")
    assert departures.told[0] == ("c", "a", True)
    assert sorted(departures.told[1:]) == [("c", "b", True), ("c", "f", False)]
    assert ready.size("c") == 0

"""A shard with several providers: each machine is one provider's, and one that fails does not stop the others."""

import asyncio
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.core.machines import MachineState
from bigfleet.engine import Action, ActionKind
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.inventory.origins import Origins
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notices
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.process import observer
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.provider.backoff import Backoff
from bigfleet.shard.provider.client import ProviderError
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.execute import Executor
from bigfleet.shard.provider.listed import Listed
from bigfleet.shard.provider.quotas import Quotas, QuotaSlice
from bigfleet.shard.provider.reconcile import Reconciler
from bigfleet.shard.provider.several import Reconcilers, RoutedCalls
from bigfleet.shard.sessions.needs import NeedsTable
from tests.unit.shard_world import PROFILE, ScriptedOperators, ScriptedProvider

S = MachineState
ZONE = "topology.kubernetes.io/zone"


class World:
    """Two providers, of which `aws` has a0 and a1, and `gcp` has g0."""

    def __init__(self, directory: Path) -> None:
        self.providers = {name: ScriptedProvider() for name in ("aws", "gcp")}
        for name, machine_id in (("aws", "a0"), ("aws", "a1"), ("gcp", "g0")):
            self.providers[name].put(machine_id, S.SPECULATIVE)
        self.registry = CollectorRegistry()
        metrics = ShardMetrics(self.registry)
        origins = Origins(list(self.providers))
        self.inventory = Inventory(origins=origins)
        self.domains = Domains(directory)
        self.quotas = Quotas(directory, self.inventory, metrics)
        holds = Backoff()
        notices = Notices(lambda _: None, "", self.inventory.machines.get)
        self.executor = Executor(
            self.inventory,
            NeedsTable(guard=False),
            RoutedCalls(self.providers, origins),
            ScriptedOperators(),
            notices,
            holds,
            metrics,
            AuditLog(None),
            4,
            lambda: None,
            self.domains.contains,
            self.quotas.refuse,
        )
        self.inventory.observer = observer(self.executor, notices, holds)
        self.listed = Listed(self.inventory, lambda: self.reconcilers.start_over())
        each = {
            name: Reconciler(self.inventory, name, provider, self.executor, notices, self.domains, self.listed, metrics)
            for name, provider in self.providers.items()
        }
        self.reconcilers = Reconcilers(each, self.domains, self.inventory, metrics)

    async def create(self, *machine_ids: str) -> None:
        for machine_id in machine_ids:
            self.executor.submit(Action(ActionKind.PROVISION, machine_id, "c", "test", PROFILE), cycle=1)
        for _ in range(20):
            await asyncio.sleep(0)

    def state(self, machine_id: str) -> str:
        return self.inventory.machines[machine_id].state.label

    def calls(self, provider: str) -> list[tuple[str, str]]:
        return self.providers[provider].calls

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"bigfleet_shard_{name}_total", labels)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_all_providers_are_one_fleet_and_calls_go_where_the_machine_is_from(world: World) -> None:
    assert await world.reconcilers.reconcile() == 3
    assert set(world.inventory.machines) == {"a0", "a1", "g0"}
    await world.create("a1", "g0")
    assert world.calls("aws") == [("create", "a1")]
    assert world.calls("gcp") == [("create", "g0")]


async def test_a_walk_through_one_provider_removes_none_of_the_other_s_machines(world: World) -> None:
    await world.reconcilers.reconcile()
    world.providers["aws"].remove("a0")
    world.providers["aws"].changes.append("g0")  # a tombstone of what it never had
    world.reconcilers.start_over()
    await world.reconcilers.reconcile()
    assert set(world.inventory.machines) == {"a1", "g0"}


async def test_a_machine_of_another_provider_is_refused_and_counted(world: World) -> None:
    await world.reconcilers.reconcile()
    world.providers["gcp"].put("a0", S.IDLE)
    await world.reconcilers.reconcile()
    assert world.state("a0") == "Speculative"
    assert world.count("machines_rejected", reason="other_provider") == 1
    await world.create("a0")
    assert world.calls("aws") == [("create", "a0")]
    # Once its provider has it no more, the other one's is as good as any.
    world.providers["aws"].remove("a0")
    await world.reconcilers.reconcile()
    world.reconcilers.start_over()
    await world.reconcilers.reconcile()
    assert world.state("a0") == "Idle"


async def test_nothing_is_known_before_every_provider_was_listed(world: World) -> None:
    world.providers["gcp"].refusals["list"] = grpc.StatusCode.UNAVAILABLE
    assert await world.reconcilers.reconcile() == 2
    assert not world.reconcilers.ready
    del world.providers["gcp"].refusals["list"]
    for _ in range(3):
        await world.reconcilers.reconcile()
    assert world.reconcilers.ready
    await world.reconcilers.close()


async def test_one_that_fails_keeps_its_view_and_does_not_stop_the_other(world: World) -> None:
    await world.reconcilers.reconcile()
    world.providers["gcp"].refusals["list"] = grpc.StatusCode.UNAVAILABLE
    world.providers["aws"].put("a0", S.IDLE)
    assert await world.reconcilers.reconcile() == 1
    assert set(world.inventory.machines) == {"a0", "a1", "g0"}
    assert (world.count("provider_list_errors", provider="gcp"), world.count("reconcile_errors")) == (1, 1)
    assert world.count("provider_list_errors", provider="aws") == 0
    await world.reconcilers.close()


async def test_nobody_waits_for_a_provider_that_has_failed(world: World) -> None:
    await world.reconcilers.reconcile()
    gcp = world.providers["gcp"]
    gcp.refusals["list"] = grpc.StatusCode.UNAVAILABLE
    await world.reconcilers.reconcile()
    for _ in range(3):
        await asyncio.sleep(0)
        assert await world.reconcilers.reconcile() == 0
    del gcp.refusals["list"]
    gcp.list_gate.clear()
    gcp.put("g0", S.IDLE)
    async with asyncio.timeout(10):
        for _ in range(3):
            await asyncio.sleep(0)
            assert await world.reconcilers.reconcile() == 0, "it hangs, and the cycle goes on"
    gcp.list_gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
        await world.reconcilers.reconcile()
    assert world.inventory.machines["g0"].state is S.IDLE
    await world.reconcilers.close()


async def test_when_none_answers_it_says_so(world: World) -> None:
    for provider in world.providers.values():
        provider.refusals["list"] = grpc.StatusCode.UNAVAILABLE
    assert await world.reconcilers.reconcile() is None
    await world.reconcilers.close()


async def test_a_quota_counts_the_machines_of_its_provider_only(world: World) -> None:
    await world.reconcilers.reconcile()
    world.quotas.replace([QuotaSlice("aws", "", 1)], {})
    await world.create("a0", "a1", "g0")
    assert world.calls("aws") == [("create", "a0")]
    assert world.calls("gcp") == [("create", "g0")]


async def test_domains_are_reported_by_provider(world: World) -> None:
    for provider in world.providers.values():
        for machine in provider.machines.values():
            machine.zone = "zone-a"
    world.domains.confine()
    world.listed.by(ZONE)
    await world.reconcilers.reconcile()
    assert [(one.provider, one.machines[0].count) for one in world.listed.to_wire()[0]] == [("aws", 2), ("gcp", 1)]


async def test_a_call_for_a_machine_that_is_gone_goes_nowhere(world: World) -> None:
    with pytest.raises(ProviderError, match="no provider of this shard has z9"):
        await RoutedCalls(world.providers, Origins(["aws", "gcp"])).create("z9")


@pytest.mark.parametrize(
    ("given", "providers"),
    [
        ("host:7800", {"default": "host:7800"}),
        ("aws=host:7800, gcp=other:7800", {"aws": "host:7800", "gcp": "other:7800"}),
        ("host:7800,gcp=other:7800", {"default": "host:7800", "gcp": "other:7800"}),
    ],
)
def test_providers_have_names(given: str, providers: dict[str, str]) -> None:
    assert ShardOptions(provider_addr=given, plaintext=True).providers == providers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a:1,b:1", "names provider 'default' twice"),
        ("aws=a:1,aws=b:1", "names provider 'aws' twice"),
        ("aws=", "provider 'aws' has no address"),
        ("", "provider 'default' has no address"),
        ("a b=c:1", "'a b' is no name"),
        ("registry", "give coordinator_addr too"),
    ],
)
def test_names_that_make_no_sense_are_refused(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ShardOptions(provider_addr=given, plaintext=True)

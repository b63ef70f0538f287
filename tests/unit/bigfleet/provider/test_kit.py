"""The kit with a backend that does what the test says."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.kit import (
    Kind,
    Lifecycle,
    MachineRecord,
    ProviderInventory,
    ProviderMetrics,
    Shape,
    State,
    Timeouts,
)
from bigfleet.provider.kit.errors import IllegalTransition, TransitionFailed, UnknownMachine
from bigfleet.provider.kit.lifecycle import Mutation
from bigfleet.rpc.fencing import UNFENCED

SHAPE = Shape("m6i.large", "zone-a", CapacityType.ON_DEMAND, 1.0, 0.05, {"cpu": "4"})
START = 1000


@dataclass
class ScriptedBackend:
    """Every action waits for `go`, then raises `error` or succeeds. Has no readiness check."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    stubborn: bool = False
    graces: list[int] = field(default_factory=list)

    def admit(self, kind: Kind, machine: MachineRecord) -> None: ...

    async def create(self, machine: MachineRecord) -> str:
        await self._act()
        return "host"

    async def configure(self, machine: MachineRecord, bootstrap_blob: bytes) -> None:
        await self._act()

    async def drain(self, machine: MachineRecord, grace_seconds: int) -> None:
        self.graces.append(grace_seconds)
        await self._act()

    async def delete(self, machine: MachineRecord) -> None:
        await self._act()

    async def _act(self) -> None:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            if not self.stubborn:
                raise
        if self.error:
            raise self.error


@pytest.fixture
def state() -> State:
    return State(wall_clock_ns=lambda: START)


@pytest.fixture
def inventory(state: State) -> ProviderInventory:
    return state.inventory


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend()


@pytest.fixture
async def lifecycle(state: State, backend: ScriptedBackend) -> AsyncIterator[Lifecycle]:
    metrics = ProviderMetrics(CollectorRegistry(), state.inventory)
    async with Lifecycle(state, backend, Timeouts(), metrics) as lifecycle:
        yield lifecycle


def machine(
    state: MachineState, machine_id: str = "m", *, host: str = "", cluster: str = "", last_error: str = ""
) -> MachineRecord:
    return MachineRecord(machine_id, SHAPE, state, host, cluster, last_error=last_error)


def call(kind: Kind, cluster: str = "c", grace_seconds: int = 0) -> Mutation:
    return Mutation(kind, "m", UNFENCED, cluster=cluster, grace_seconds=grace_seconds)


async def settled(inventory: ProviderInventory, state: MachineState) -> MachineRecord:
    async with asyncio.timeout(2):
        while (record := inventory.get("m")).state is not state:
            await asyncio.sleep(0)
    return record


async def test_a_backend_without_a_readiness_check_lands_when_its_work_is_done(
    inventory: ProviderInventory, backend: ScriptedBackend, lifecycle: Lifecycle
) -> None:
    inventory.put(machine(MachineState.IDLE, host="host"))
    lifecycle.mutate(call(Kind.CONFIGURE))
    assert inventory.get("m").state is MachineState.CONFIGURING
    backend.go.set()
    assert (await settled(inventory, MachineState.CONFIGURED)).cluster == "c"


@pytest.mark.parametrize(
    ("error", "last_error"),
    [
        (TransitionFailed("out of stock"), "create: out of stock"),
        (KeyError("zone"), "create: KeyError: 'zone'"),
        (TimeoutError(), "create: timed out"),
    ],
)
async def test_any_error_of_a_backend_makes_the_machine_failed(
    inventory: ProviderInventory, backend: ScriptedBackend, lifecycle: Lifecycle, error: Exception, last_error: str
) -> None:
    inventory.put(machine(MachineState.SPECULATIVE))
    backend.error = error
    backend.go.set()
    lifecycle.mutate(call(Kind.CREATE))
    failed = await settled(inventory, MachineState.FAILED)
    assert (failed.last_error, failed.host) == (last_error, "")


@pytest.mark.parametrize("stubborn", [False, True])
async def test_the_end_of_a_transition_whose_machine_was_lost_is_discarded(
    inventory: ProviderInventory, backend: ScriptedBackend, lifecycle: Lifecycle, stubborn: bool
) -> None:
    inventory.put(machine(MachineState.SPECULATIVE))
    backend.stubborn = stubborn
    lifecycle.mutate(call(Kind.CREATE))
    await asyncio.sleep(0)
    lifecycle.lose("m", "lost: test")
    _, anew = lifecycle.mutate(call(Kind.CREATE))
    for _ in range(5):
        await asyncio.sleep(0)
    assert inventory.get("m") is anew
    backend.go.set()
    await settled(inventory, MachineState.IDLE)


@pytest.mark.parametrize(
    ("failed_in", "accepted"),
    [
        (Kind.CREATE, {Kind.CREATE}),
        (Kind.CONFIGURE, {Kind.CONFIGURE, Kind.DRAIN, Kind.DELETE}),
        (Kind.DRAIN, {Kind.DRAIN, Kind.DELETE}),
        (Kind.DELETE, {Kind.DELETE}),
        (None, {Kind.CREATE}),
    ],
)
@pytest.mark.parametrize("kind", Kind)
async def test_a_failed_machine_takes_the_calls_that_help_it(
    inventory: ProviderInventory, lifecycle: Lifecycle, kind: Kind, failed_in: Kind | None, accepted: set[Kind]
) -> None:
    failed = replace(machine(MachineState.FAILED, host="host", cluster="c", last_error="x"), failed_in=failed_in)
    inventory.put(failed)
    if kind in accepted:
        _, moving = lifecycle.mutate(call(kind))
        assert moving.last_error == ""
        assert inventory.get("m") is moving
    else:
        with pytest.raises(IllegalTransition, match=rf"is Failed \(x\) and cannot {kind}"):
            lifecycle.mutate(call(kind))
        assert inventory.get("m") is failed


async def test_metadata_of_a_request_is_copied_and_never_shared(
    inventory: ProviderInventory, lifecycle: Lifecycle
) -> None:
    inventory.put(machine(MachineState.IDLE, host="host"))
    metadata = {"k": "v"}
    lifecycle.mutate(replace(call(Kind.CONFIGURE), metadata=metadata))
    metadata["k"] = "changed"
    assert inventory.get("m").metadata == {"k": "v"}


async def test_leaving_the_lifecycle_abandons_what_is_in_flight(
    inventory: ProviderInventory, backend: ScriptedBackend, lifecycle: Lifecycle
) -> None:
    inventory.put(machine(MachineState.SPECULATIVE))
    lifecycle.mutate(call(Kind.CREATE))
    await lifecycle.__aexit__(None, None, None)
    assert inventory.get("m").state is MachineState.CREATING


def test_a_drain_has_its_grace_and_a_little_more() -> None:
    timeouts = Timeouts(drain_beyond_grace_seconds=60)
    assert timeouts.seconds(Kind.DRAIN, grace_seconds=600) == 660
    assert timeouts.seconds(Kind.DRAIN, grace_seconds=2**63 - 1) == 7 * 24 * 3600
    assert timeouts.seconds(Kind.CREATE) == 300


def ids(records: list[MachineRecord]) -> list[str]:
    return [record.id for record in records]


def test_a_delta_lists_a_machine_once_at_its_last_change(inventory: ProviderInventory) -> None:
    for name in ("a", "b", "c"):
        inventory.put(machine(MachineState.IDLE, name))
    cursor = inventory.page().revision
    inventory.put(machine(MachineState.CONFIGURING, "a"))
    inventory.put(machine(MachineState.CONFIGURING, "c"))
    inventory.put(machine(MachineState.CONFIGURED, "a"))
    delta = inventory.page(cursor)
    assert ids(delta.records) == ["c", "a"]
    assert delta.revision == b"%d" % (START + 6)
    assert inventory.page(delta.revision).records == []


def test_a_removed_machine_is_a_tombstone_until_it_is_back(inventory: ProviderInventory) -> None:
    inventory.put(machine(MachineState.IDLE, "a"))
    inventory.put(machine(MachineState.IDLE, "b"))
    cursor = inventory.page().revision
    inventory.remove("a")
    assert inventory.page(cursor).removed_ids == ["a"]
    assert inventory.page().removed_ids == []
    assert ids(inventory.page().records) == ["b"]
    assert len(inventory.ids(MachineState.IDLE)) == 1
    with pytest.raises(UnknownMachine):
        inventory.remove("a")

    inventory.put(machine(MachineState.IDLE, "a"))
    delta = inventory.page(cursor)
    assert (ids(delta.records), delta.removed_ids) == (["a"], [])


def test_a_capped_delta_brings_each_tombstone_and_machine_exactly_once(inventory: ProviderInventory) -> None:
    for name in ("a", "b", "c", "d"):
        inventory.put(machine(MachineState.IDLE, name))
    cursor = inventory.page().revision
    inventory.put(machine(MachineState.CONFIGURING, "a"))
    inventory.remove("b")
    inventory.put(machine(MachineState.CONFIGURING, "c"))
    inventory.remove("d")
    pages = []
    while (page := inventory.page(cursor, limit=1)).records or page.removed_ids:
        pages.append((ids(page.records), page.removed_ids))
        cursor = page.revision
    assert pages == [(["a"], []), (["c"], ["b", "d"])]


def test_one_machine_that_changes_for_ever_hides_no_other(inventory: ProviderInventory) -> None:
    for name in ("a", "b", "c"):
        inventory.put(machine(MachineState.IDLE, name))
    cursor = inventory.page(limit=1).revision
    for _ in range(5000):
        inventory.put(machine(MachineState.IDLE, "b"))
    first = inventory.page(cursor, limit=1)
    last = inventory.page(first.revision, limit=1)
    assert [(ids(page.records), page.more) for page in (first, last)] == [(["c"], True), (["b"], False)]
    assert ids(inventory.page().records) == ["a", "c", "b"]


def test_machines_outside_the_filter_do_not_use_up_the_cap(inventory: ProviderInventory) -> None:
    inventory.put(machine(MachineState.SPECULATIVE, "a"))
    inventory.put(machine(MachineState.IDLE, "b"))
    page = inventory.page(states={MachineState.IDLE}, limit=1)
    assert ids(page.records) == ["b"]
    assert page.revision == b"%d" % (START + 2)


@pytest.mark.parametrize("cursor", [b"", b"x", b"-1", b"999", b"1003", b"9" * 5000])
def test_only_revisions_of_this_process_are_cursors(inventory: ProviderInventory, cursor: bytes) -> None:
    inventory.put(machine(MachineState.IDLE, "a"))
    inventory.put(machine(MachineState.IDLE, "b"))
    page = inventory.page(cursor)
    assert ids(page.records) == ["a", "b"]
    assert page.restarted == (cursor != b"")

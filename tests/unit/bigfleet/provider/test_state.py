"""A provider's memory: what is restored is what was there, from a journal, from a snapshot, or from both."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.kit import Kind, MachineRecord, Shape, State
from bigfleet.provider.kit.domains import ShardDomains
from bigfleet.provider.kit.entries import Entry, Flight
from bigfleet.provider.kit.errors import Fenced
from bigfleet.provider.kit.store import Disk
from bigfleet.rpc.fencing import FencingToken

SHAPES = [
    Shape("m6i.large", zone, CapacityType.ON_DEMAND, 1.0, 0.05, {"cpu": "4"}, {"rack": f"{zone}-1"})
    for zone in ("a", "b")
]


class Kept:
    """A store that keeps entries in memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def stage(self, entry: Entry) -> None:
        self.entries.append(entry)

    async def flushed(self) -> None: ...


def machine(name: str, shape: int = 0, state: MachineState = MachineState.IDLE, **fields: Any) -> MachineRecord:
    return MachineRecord(name, SHAPES[shape], state, **fields)


names = st.sampled_from([f"m-{number}" for number in range(5)])
steps = st.one_of(
    st.tuples(st.just("put"), names, st.integers(0, 1), st.sampled_from([state for state in MachineState if state])),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("admit"), names, st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("operate"), names, st.sampled_from(list(Kind))),
    st.tuples(st.just("fly"), names, st.sampled_from(list(Kind))),
    st.tuples(st.just("restart")),
    st.tuples(st.just("compact")),
)


def play(state: State, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", name, shape, target):
            state.inventory.put(machine(name, shape, target, host="h", cluster="c", metadata={"k\x00": "é"}))
            if target.name in ("SPECULATIVE", "IDLE", "CONFIGURED", "FAILED"):
                state.flights.end(name)
        case ("remove", name) if name in state.inventory:
            state.inventory.remove(name)
            state.flights.end(name)
        case ("admit", name, epoch, sequence):
            with suppress(Fenced):
                state.fences.admit(FencingToken("shard", epoch, sequence), name)
        case ("operate", name, kind):
            state.operations.new(name, kind)
        case ("fly", name, kind) if name in state.inventory:
            state.inventory.put(replace(state.inventory.get(name), state=MachineState.CREATING))
            state.flights.begin(Flight(name, kind, 17.5, 2**62, b"\x00blob"))


def facts(state: State) -> tuple[Any, ...]:
    """All that a provider knows, apart from the life that it is in."""
    inventory = state.inventory
    records = {name: inventory.get(name).write(pb.Machine(), "p") for name in inventory._log if name in inventory}
    marks = state.fences._marks | state.fences._strangers
    flights = sorted(state.flights.entries(), key=lambda flight: flight.machine_id)
    return records, dict(inventory._log), inventory._moved, marks, state.operations._numbers, flights


@settings(max_examples=300)
@given(st.lists(steps, max_size=40))
def test_a_restored_state_is_the_state_that_was_there(history: list[tuple[Any, ...]]) -> None:
    store = Kept()
    state = State(store, wall_clock_ns=lambda: 1000)
    cursors: list[bytes] = []
    for step in history:
        if step[0] == "compact":
            store.entries = list(state.snapshot())
        elif step[0] == "restart":
            entries, store = store.entries, Kept()
            store.entries = list(entries)
            before = facts(state)
            state = State(store, entries, wall_clock_ns=lambda: 1000)
            assert facts(state) == before
        play(state, step)
        cursors.append(state.inventory.page().revision)
    restored = State(Kept(), store.entries, wall_clock_ns=lambda: 1000)
    assert facts(restored) == facts(state)
    for cursor in cursors:
        old, new = state.inventory.page(cursor), restored.inventory.page(cursor)
        assert not old.restarted and not new.restarted
        assert [record.id for record in new.records] == [record.id for record in old.records]
        assert new.removed_ids == old.removed_ids


def test_a_cursor_that_a_crash_has_swallowed_is_answered_in_full() -> None:
    store = Kept()
    state = State(store, wall_clock_ns=lambda: 1000)
    state.inventory.put(machine("a"))
    safe = list(store.entries)
    known = state.inventory.page().revision
    state.inventory.put(machine("b"))
    swallowed = state.inventory.page().revision

    restored = State(Kept(), safe, wall_clock_ns=lambda: 2000)
    restored.inventory.put(machine("c"))
    assert restored.inventory.page(swallowed).restarted
    delta = restored.inventory.page(known)
    assert [record.id for record in delta.records] == ["c"]
    assert not delta.restarted


def test_old_tombstones_are_forgotten_together_with_the_cursors_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigfleet.provider.kit.inventory._MOST_TOMBSTONES", 2)
    state = State(Kept(), wall_clock_ns=lambda: 1000)
    for name in ("a", "b", "c", "d"):
        state.inventory.put(machine(name))
    cursors = [state.inventory.page().revision]
    for name in ("a", "b", "c"):
        state.inventory.remove(name)
        cursors.append(state.inventory.page().revision)
    assert [state.inventory.page(cursor).restarted for cursor in cursors] == [True, False, False, False]
    assert state.inventory.page(cursors[1]).removed_ids == ["b", "c"]
    assert [record.id for record in state.inventory.page(cursors[0]).records] == ["d"]


def test_a_description_changes_what_machines_look_like_and_nothing_else() -> None:
    state = State(Kept(), wall_clock_ns=lambda: 1000)
    state.describe([machine("a"), machine("b"), machine("gone")])
    state.inventory.remove("gone")
    state.inventory.put(replace(state.inventory.get("a"), state=MachineState.CONFIGURED, host="h", cluster="c"))
    cursor = state.inventory.page().revision

    same = Shape("m6i.large", "a", CapacityType.ON_DEMAND, 1.0, 0.05, {"cpu": "4"}, {"rack": "a-1"})
    dearer = replace(same, price_per_hour=2.0)
    state.describe([MachineRecord("a", dearer, MachineState.IDLE), MachineRecord("b", same, MachineState.IDLE)])
    state.describe([machine("gone"), machine("new")])
    delta = state.inventory.page(cursor)
    assert [(record.id, record.state) for record in delta.records] == [
        ("a", MachineState.CONFIGURED),
        ("new", MachineState.IDLE),
    ]
    assert state.inventory.get("a").shape.price_per_hour == 2.0
    assert "gone" not in state.inventory


def test_a_shard_is_sent_its_own_domains_and_told_of_machines_that_left_them() -> None:
    state = State(Kept(), wall_clock_ns=lambda: 1000)
    state.describe([machine("a"), machine("b", 1), machine("moves")])
    domains = ShardDomains(["shard-0:topology.kubernetes.io/zone=a", "shard-1:rack=b-1", "shard-1:rack=none"])
    mine, theirs = domains.owned_by("shard-0"), domains.owned_by("shard-1")
    assert [record.id for record in state.inventory.page(owned=mine).records] == ["a", "moves"]
    assert [record.id for record in state.inventory.page(owned=theirs).records] == ["b"]
    assert domains.owned_by("somebody") is None

    cursor = state.inventory.page().revision
    state.inventory.put(machine("moves", 1))
    state.inventory.put(machine("b", 1, MachineState.CONFIGURED))
    delta = state.inventory.page(cursor, owned=mine)
    assert ([record.id for record in delta.records], delta.removed_ids) == ([], ["moves"])
    assert [record.id for record in state.inventory.page(cursor, owned=theirs).records] == ["moves", "b"]

    for nonsense in ("shard-0", "shard-0:zone", ":k=v", "s:=v"):
        with pytest.raises(ValueError, match="is not SHARD:KEY=VALUE"):
            ShardDomains([nonsense])


def test_marks_for_strangers_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigfleet.provider.kit.fencing._MOST_STRANGERS", 2)
    state = State(Kept())
    state.inventory.put(machine("known"))
    for name in ("known", "x", "y", "z"):
        state.fences.admit(FencingToken("shard", 5, 5), name)
    for name in ("known", "y", "z"):
        with pytest.raises(Fenced):
            state.fences.admit(FencingToken("shard", 5, 5), name)
    state.fences.admit(FencingToken("shard", 5, 5), "x")


async def test_changes_that_come_while_the_journal_is_compacted_are_kept(tmp_path: Path) -> None:
    disk = Disk(tmp_path, CollectorRegistry(), small_bytes=0)
    state = State(disk, disk.recover())
    writer = asyncio.create_task(disk.run(state.snapshot))
    for number in range(300):
        state.inventory.put(machine(f"m-{number % 40}", number % 2, metadata={"number": str(number)}))
        state.fences.admit(FencingToken("shard", 1, number + 1), f"m-{number % 40}")
        if number % 7 == 0:
            await disk.flushed()
        elif number % 3 == 0:
            await asyncio.sleep(0)
    await disk.flushed()
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    assert disk._compactions._value.get() > 1

    again = Disk(tmp_path, CollectorRegistry())
    restored = State(again, again.recover())
    assert facts(restored) == facts(state)
    again._journal.close()

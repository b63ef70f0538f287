"""List: filters, caps, cursors (docs/reference/wire.md#listing)."""

import asyncio
from typing import Any

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable

S = MachineState
# Below this many machines a provider may ignore since_revision (docs/reference/wire.md#listing).
_MAY_IGNORE_CURSORS = 10_000
_GARBAGE = b"\xff\x00 conformance: no provider has made this cursor"


async def _cursor(bench: Bench) -> bytes:
    revision: bytes = (await bench.listed()).revision
    if not revision:
        raise NotApplicable("the provider gives no revision: every List is a full one")
    return revision


async def _change(bench: Bench) -> str:
    """The id of a machine that has just changed."""
    machine_id = await bench.machine(S.IDLE)
    (await bench.configure(machine_id)).accepted()
    await bench.until(machine_id, S.CONFIGURED)
    return machine_id


@check
async def list_filters_by_state(bench: Bench) -> None:
    """A List for IDLE has every Idle machine and no other."""
    machine_id = await bench.machine(S.IDLE)
    listed = (await bench.listed(states=[int(S.IDLE)])).machines
    if wrong := [machine for machine in listed if machine.state != S.IDLE]:
        raise Broken(f"a List for IDLE has {wrong[0].id}, which is {MachineState(wrong[0].state).name}")
    if machine_id not in {machine.id for machine in listed}:
        raise Broken(f"a List for IDLE lacks {machine_id}, which is IDLE")


@check
async def list_max_results(bench: Bench) -> None:
    """A List with max_results 1 has at most one machine."""
    listed = (await bench.listed(max_results=1)).machines
    if len(listed) > 1:
        raise Broken(f"a List with max_results 1 has {len(listed)} machines")


@check
async def get_agrees_with_list(bench: Bench) -> None:
    """Get and List tell the same of a machine."""
    machine = await bench.get(await bench.machine(S.IDLE))
    listed = {entry.id: entry for entry in (await bench.listed()).machines}
    if machine.id not in listed:
        raise Broken(f"Get knows {machine.id}, List does not")
    if listed[machine.id] != machine:
        raise Broken(f"Get and List differ about {machine.id}")


@check
async def list_revision_advances(bench: Bench) -> None:
    """A revision, if there is one, is another one after a change."""
    before = await _cursor(bench)
    await _change(bench)
    if await _cursor(bench) == before:
        raise Broken(f"the revision is still {before!r} after a machine was configured")


@check
async def delta_holds_the_change(bench: Bench) -> None:
    """A List since a revision has the machines that changed after it, as they are now (B901–909)."""
    machine_id = await bench.machine(S.IDLE)
    cursor = await _cursor(bench)
    (await bench.configure(machine_id)).accepted()
    now = await bench.until(machine_id, S.CONFIGURED)
    delta = {machine.id: machine for machine in (await bench.listed(since_revision=cursor)).machines}
    if machine_id not in delta:
        raise Broken(f"{machine_id} was configured after {cursor!r}, and the delta since then lacks it")
    if delta[machine_id].state != now.state:
        raise Broken(f"{machine_id} is CONFIGURED, the delta says {MachineState(delta[machine_id].state).name}")


@check
async def empty_delta_when_quiet(bench: Bench) -> None:
    """A List since the newest revision has no machine that did not change since (B901–909)."""
    machine_id = await bench.machine(S.IDLE)
    whole = await bench.listed()
    if not whole.revision:
        raise NotApplicable("the provider gives no revision: every List is a full one")
    delta = await bench.listed(since_revision=whole.revision)
    if machine_id not in {machine.id for machine in delta.machines}:
        return
    _excuse_full_lists(whole, delta)
    raise Broken(f"{machine_id} did not change after {whole.revision!r}, and the delta since then has it")


@check
async def cursors_move_on(bench: Bench) -> None:
    """A shard that follows the revisions sees every change and sees it once (B901–909)."""
    machine_id = await bench.machine(S.IDLE)
    cursor = await _cursor(bench)
    for call, state in ((bench.configure, S.CONFIGURED), (bench.drain, S.IDLE)):
        (await call(machine_id)).accepted()
        await bench.until(machine_id, state, seconds=bench.limits.until(state, drained=True))
        delta = await bench.listed(since_revision=cursor)
        states = [machine.state for machine in delta.machines if machine.id == machine_id]
        if states != [state]:
            raise Broken(f"{machine_id} became {state.name} after {cursor!r}; the delta has it {len(states)} times")
        cursor = delta.revision
        again = await bench.listed(since_revision=cursor)
        if machine_id in {machine.id for machine in again.machines}:
            _excuse_full_lists(await bench.listed(), again)
            raise Broken(f"the delta since {cursor!r} repeats {machine_id}, which was in the one before")


@check
async def garbage_cursor_is_answered_in_full(bench: Bench) -> None:
    """A revision that the provider never gave out is answered by a full List (B901–909)."""
    machine_id = await bench.machine(S.IDLE)
    whole = {machine.id for machine in (await bench.listed()).machines}
    answer = await bench.listed(since_revision=_GARBAGE)
    listed = {machine.id for machine in answer.machines}
    if machine_id not in listed or len(listed) < len(whole):
        raise Broken(f"a List since garbage has {len(listed)} of {len(whole)} machines")


@check
async def paging_is_complete(bench: Bench) -> None:
    """Pages of max_results, each since the revision of the one before, bring every machine (B901–909)."""
    await bench.machine(S.IDLE)
    await _cursor(bench)
    whole = {machine.id for machine in (await bench.listed()).machines}
    size = max(1, len(whole) // 4)
    seen: set[str] = set()
    page = await bench.listed(max_results=size)
    for _ in range(len(whole) // size + 3):
        ids = {machine.id for machine in page.machines}
        if not ids:
            break
        if ids <= seen and len(whole) < _MAY_IGNORE_CURSORS:
            raise NotApplicable(f"the provider ignores revisions, as it may below {_MAY_IGNORE_CURSORS} machines")
        seen |= ids
        page = await bench.listed(max_results=size, since_revision=page.revision)
    if missing := whole - seen:
        raise Broken(f"pages of {size} lack {len(missing)} of {len(whole)} machines, for one {min(missing)}")


@check
async def no_spontaneous_transitions(bench: Bench) -> None:
    """A machine that no shard calls stays as it is (B101–109)."""
    machine = await bench.get(await bench.machine(S.IDLE))
    for _ in range(5):
        await asyncio.sleep(bench.limits.quiet_seconds / 5)
        await bench.unchanged(machine, "without a call")


def _excuse_full_lists(whole: Any, delta: Any) -> None:
    everything = len(whole.machines)
    if len(delta.machines) >= everything > 1 and everything < _MAY_IGNORE_CURSORS:
        raise NotApplicable(f"the provider ignores revisions, as it may below {_MAY_IGNORE_CURSORS} machines")

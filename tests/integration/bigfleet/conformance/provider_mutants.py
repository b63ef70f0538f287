"""Fake providers with one broken rule each, and the checks of the conformance suite that must see it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.core.requirements import ZONE_KEY
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.kit.errors import (
    Fenced,
    IllegalTransition,
    InvalidArgument,
    KitError,
    TransitionFailed,
    UnknownMachine,
)
from bigfleet.provider.kit.lifecycle import Mutation
from bigfleet.rpc.fencing import UNFENCED, FencingToken

S = MachineState
Break = Callable[[FakeProvider], None]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Mutant:
    """A way to change a provider, and the names of the checks that fail then; no other may."""

    name: str
    break_it: Break
    fails: frozenset[str]


MUTANTS: list[Mutant] = []


def fails(*checks: str) -> Callable[[Break], Break]:
    def register(break_it: Break) -> Break:
        MUTANTS.append(Mutant(break_it.__name__, break_it, frozenset(checks)))
        return break_it

    return register


# --- ways to break -----------------------------------------------------------------------------------------------


def retouch(provider: FakeProvider, change: Callable[[pb.Machine], None], rpcs: tuple[str, ...] = ()) -> None:
    """Change every machine that these RPCs show (all, when none is named)."""
    for rpc in rpcs or ("Create", "Configure", "Drain", "Delete", "Get", "List"):

        def answer(message: Any) -> Any:
            machines = message.machines if isinstance(message, pb.MachineList) else [message]
            for machine in machines:
                change(machine.machine if isinstance(machine, pb.TransitionAck) else machine)
            return message

        after(provider, rpc, answer)


def after(provider: FakeProvider, rpc: str, change: Callable[[Any], Any]) -> None:
    """Change what an RPC answers."""

    async def around(original: Callable[[Any, Any], Awaitable[Any]], request: Any, context: Any) -> Any:
        return change(await original(request, context))

    wrap(provider, rpc, around)


def wrap(provider: FakeProvider, rpc: str, around: Callable[[Any, Any, Any], Awaitable[Any]]) -> None:
    service = provider.kit.service
    original = getattr(service, rpc)

    async def wrapped(request: Any, context: Any) -> Any:
        return await around(original, request, context)

    setattr(service, rpc, wrapped)


def override(owner: object, method: Callable[P, R], by: Callable[P, R]) -> None:
    """Put `by` in the place of one of the owner's methods."""
    setattr(owner, method.__name__, wraps(method)(by))


def instead(provider: FakeProvider, answer: Callable[[Mutation], tuple[str, MachineRecord] | None]) -> None:
    """Answer some mutating calls in another way; None leaves the call to the real provider."""
    original = provider.lifecycle.mutate

    def mutate(call: Mutation) -> tuple[str, MachineRecord]:
        return answer(call) or original(call)

    override(provider.lifecycle, original, mutate)


def admission(
    provider: FakeProvider, admit: Callable[[Callable[[FencingToken, str], None], FencingToken, str], None]
) -> None:
    """Another rule for tokens."""
    fences = provider.kit.state.fences
    original = fences.admit
    override(fences, original, lambda token, machine_id: admit(original, token, machine_id))


def state_of(provider: FakeProvider, machine_id: str) -> MachineState | None:
    return provider.inventory.get(machine_id).state if machine_id in provider.inventory else None


def acknowledged(provider: FakeProvider, call: Mutation) -> tuple[str, MachineRecord]:
    return provider.kit.state.operations.get(call.machine_id, call.kind), provider.inventory.get(call.machine_id)


# --- fields ------------------------------------------------------------------------------------------------------


@fails("LabelShape")
def machines_without_a_type(provider: FakeProvider) -> None:
    retouch(provider, lambda machine: machine.ClearField("instance_type"))


@fails("CostFieldBounds")
def negative_prices(provider: FakeProvider) -> None:
    retouch(provider, lambda machine: setattr(machine, "price_per_hour", -0.1))


@fails("SpotDeclaresInterruption")
def spot_that_is_never_interrupted(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.capacity_type == pb.SPOT:
            machine.interruption_probability = 0

    retouch(provider, change)


@fails("NoFieldHiddenInLabels")
def zones_among_the_labels(provider: FakeProvider) -> None:
    retouch(provider, lambda machine: machine.labels.update({ZONE_KEY: machine.zone}))


@fails("UniqueIds")
def one_machine_listed_twice(provider: FakeProvider) -> None:
    def change(listed: pb.MachineList) -> pb.MachineList:
        for machine in list(listed.machines):
            if machine.capacity_type == pb.SPOT:
                listed.machines.add().CopyFrom(machine)
        return listed

    after(provider, "List", change)


@fails("ListedMachinesAreSound")
def slots_with_a_host(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.capacity_type == pb.SPOT:
            machine.host.provider, machine.host.ref = "fake", "left-over"

    retouch(provider, change, ("List",))


@fails("HostProviderStable")
def a_provider_name_per_host(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.HasField("host"):
            machine.host.provider = machine.host.ref

    retouch(provider, change)


@fails("DeleteClearsTheHost", "HostAndClusterPerState", "ListedMachinesAreSound")
def deleted_machines_keep_their_host(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.state == pb.SPECULATIVE:
            machine.host.provider, machine.host.ref = "fake", f"host-{machine.id}"

    retouch(provider, change)


# --- List --------------------------------------------------------------------------------------------------------


async def _without(field: str, original: Any, request: Any, context: Any) -> Any:
    request.ClearField(field)
    return await original(request, context)


@fails("ListFiltersByState")
def list_without_a_state_filter(provider: FakeProvider) -> None:
    wrap(provider, "List", lambda *call: _without("states", *call))


@fails("ListMaxResults")
def list_without_a_cap(provider: FakeProvider) -> None:
    wrap(provider, "List", lambda *call: _without("max_results", *call))


@fails("GetAgreesWithList")
def list_without_allocatable(provider: FakeProvider) -> None:
    retouch(provider, lambda machine: machine.ClearField("allocatable"), ("List",))


@fails("ListRevisionAdvances")
def one_revision_for_ever(provider: FakeProvider) -> None:
    after(provider, "List", lambda listed: pb.MachineList(machines=listed.machines, revision=b"1"))


@fails("DeltaHoldsTheChange", "CursorsMoveOn")
def deltas_without_bound_machines(provider: FakeProvider) -> None:
    async def around(original: Any, request: Any, context: Any) -> Any:
        listed = await original(request, context)
        if request.since_revision and not listed.full:
            kept = [machine for machine in listed.machines if machine.state != S.CONFIGURED]
            return pb.MachineList(machines=kept, revision=listed.revision)
        return listed

    wrap(provider, "List", around)


@fails("EmptyDeltaWhenQuiet", "CursorsMoveOn")
def deltas_that_begin_one_change_too_early(provider: FakeProvider) -> None:
    async def around(original: Any, request: Any, context: Any) -> Any:
        if request.since_revision.isdigit() and not request.max_results:
            request.since_revision = b"%d" % (int(request.since_revision) - 1)
        return await original(request, context)

    wrap(provider, "List", around)


@fails("GarbageCursorIsAnsweredInFull")
def nothing_for_a_cursor_that_means_nothing(provider: FakeProvider) -> None:
    after(provider, "List", lambda listed: pb.MachineList(revision=listed.revision) if listed.full else listed)


@fails("PagingIsComplete")
def pages_that_end_at_the_newest_revision(provider: FakeProvider) -> None:
    def change(listed: pb.MachineList) -> pb.MachineList:
        listed.revision = provider.inventory.page().revision
        return listed

    after(provider, "List", change)


@fails("NoSpontaneousTransitions")
def machines_that_change_by_themselves(provider: FakeProvider) -> None:
    looks: dict[str, int] = {}

    def change(machine: pb.Machine) -> None:
        looks[machine.id] = looks.get(machine.id, 0) + 1 if machine.state == pb.IDLE else 0
        if looks[machine.id] > 5:
            machine.labels["looks"] = str(looks[machine.id])

    def reset(call: Mutation) -> None:
        looks.pop(call.machine_id, None)

    def forget(listed: Any) -> Any:
        looks.clear()
        return listed

    retouch(provider, change, ("Get",))
    after(provider, "List", forget)
    instead(provider, reset)


# --- errors ------------------------------------------------------------------------------------------------------


@fails("GetUnknownMachine")
def internal_error_for_an_unknown_machine(provider: FakeProvider) -> None:
    def get(machine_id: str) -> MachineRecord:
        try:
            return original(machine_id)
        except UnknownMachine as error:
            raise IllegalTransition(str(error)) from error

    original = provider.kit.service._inventory.get

    class Renamed:
        def __getattr__(self, name: str) -> Any:
            return get if name == "get" else getattr(provider.inventory, name)

    provider.kit.service._inventory = Renamed()  # type: ignore[assignment]  # only the service sees another inventory


def _for_unknown(kind: Kind, error: KitError) -> Break:
    def break_it(provider: FakeProvider) -> None:
        def answer(call: Mutation) -> None:
            if call.kind is kind and call.machine_id and call.machine_id not in provider.inventory:
                provider.kit.state.fences.admit(call.token, call.machine_id)
                raise error

        instead(provider, answer)

    return break_it


@fails("DeleteUnknownMachine", "FencingBeforeNotFound")
def delete_of_nobody_is_an_internal_error(provider: FakeProvider) -> None:
    _for_unknown(Kind.DELETE, IllegalTransition("no idea"))(provider)


@fails("LifecycleCallsOnUnknownMachine", "FencingBeforeNotFound")
def configure_of_nobody_is_an_internal_error(provider: FakeProvider) -> None:
    _for_unknown(Kind.CONFIGURE, IllegalTransition("no idea"))(provider)


@fails("EmptyId")
def an_empty_id_is_looked_for(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if not call.machine_id:
            raise UnknownMachine("")

    instead(provider, answer)


def _taken(provider: FakeProvider, kind: Kind, state: MachineState) -> None:
    """Acknowledge a call that the state forbids."""

    def answer(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.kind is kind and state_of(provider, call.machine_id) is state and call.grace_seconds >= 0:
            provider.kit.state.fences.admit(call.token, call.machine_id)
            return acknowledged(provider, call)
        return None

    instead(provider, answer)


@fails("DrainOnSpeculative", "RandomWalk")
def drain_of_a_slot_is_taken(provider: FakeProvider) -> None:
    _taken(provider, Kind.DRAIN, S.SPECULATIVE)


@fails("DrainOnSpeculative", "RandomWalk")
def drain_of_a_slot_looks_fenced(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.DRAIN and state_of(provider, call.machine_id) is S.SPECULATIVE:
            raise Fenced("not now")

    instead(provider, answer)


@fails("ConfigureOnSpeculative", "RandomWalk")
def configure_of_a_slot_is_taken(provider: FakeProvider) -> None:
    _taken(provider, Kind.CONFIGURE, S.SPECULATIVE)


@fails("ConfigureOnSpeculative", "RandomWalk")
def a_refused_configure_leaves_its_trace(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.CONFIGURE and state_of(provider, call.machine_id) is S.SPECULATIVE:
            provider.inventory.put(replace(provider.inventory.get(call.machine_id), metadata={"k": "v"}))

    instead(provider, answer)


@fails("CreateOnConfigured", "FencingRefusedCallAdvancesTheMark", "RandomWalk")
def create_of_a_bound_machine_is_taken(provider: FakeProvider) -> None:
    _taken(provider, Kind.CREATE, S.CONFIGURED)


@fails("DeleteOnConfigured", "RandomWalk")
def delete_of_a_bound_machine_is_taken(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.kind is Kind.DELETE and state_of(provider, call.machine_id) is S.CONFIGURED:
            return provider.lifecycle._accept(call, provider.inventory.get(call.machine_id))
        return None

    instead(provider, answer)


@fails("NegativeGrace", "FencingAfterArguments")
def a_negative_grace_is_none(provider: FakeProvider) -> None:
    original = provider.lifecycle.mutate

    def mutate(call: Mutation) -> tuple[str, MachineRecord]:
        return original(replace(call, grace_seconds=max(0, call.grace_seconds)))

    override(provider.lifecycle, original, mutate)


@fails("NegativeToken")
def negative_tokens_are_none(provider: FakeProvider) -> None:
    original = provider.lifecycle.mutate

    def mutate(call: Mutation) -> tuple[str, MachineRecord]:
        if call.token.epoch < 0 or call.token.sequence < 0:
            call = replace(call, token=UNFENCED)
        return original(call)

    override(provider.lifecycle, original, mutate)


@fails("LargestToken")
def tokens_of_32_bits(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.token.sequence >= 2**32:
            raise InvalidArgument("sequence_number is too large")

    instead(provider, answer)


@fails("OversizeConfigure")
def long_metadata_is_cut(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        for key, value in list(machine.shard_metadata.items()):
            machine.shard_metadata[key] = value[:4096]

    retouch(provider, change)


# --- lifecycle ---------------------------------------------------------------------------------------------------


@fails("FullLifecycle", "ConfigureIdempotent", "NoOpAtTargetKeepsTheOperation", "OperationIdsAreFreshPerCycle")
def configure_without_an_operation(provider: FakeProvider) -> None:
    after(provider, "Configure", lambda ack: pb.TransitionAck(machine=ack.machine))


@fails("TransitionalStateObservability", "OnlyTheRightStatesOnTheWay", "HostAndClusterPerState")
def creating_looks_like_configuring(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.state == pb.CREATING:
            machine.state = pb.CONFIGURING

    retouch(provider, change)


@fails("OnlyTheRightStatesOnTheWay")
def draining_looks_like_deleting(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.state == pb.DRAINING:
            machine.state = pb.DELETING

    retouch(provider, change)


@fails("HostAndClusterPerState", "MetadataVisibleDuringConfiguring")
def no_cluster_before_configured(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.state == pb.CONFIGURING:
            machine.ClearField("cluster")

    retouch(provider, change)


@fails("RoundTripsLeaveNoResidue")
def every_round_leaves_a_label(provider: FakeProvider) -> None:
    rounds: dict[str, int] = {}

    def count(call: Mutation) -> None:
        if call.kind is Kind.CREATE:
            rounds[call.machine_id] = rounds.get(call.machine_id, 0) + 1

    def change(machine: pb.Machine) -> None:
        if machine.state == pb.SPECULATIVE:
            machine.labels["rounds"] = str(rounds.get(machine.id, 0))

    instead(provider, count)
    retouch(provider, change)


@fails("DrainGraceTimeout")
def without_grace_a_drain_never_ends(provider: FakeProvider) -> None:
    backend = provider.lifecycle._backend
    original = backend.drain

    async def drain(machine: MachineRecord, grace_seconds: int) -> None:
        await original(machine, grace_seconds)
        if grace_seconds == 0:
            await asyncio.get_running_loop().create_future()

    override(backend, original, drain)


def _zero_grace_drains_fail(provider: FakeProvider) -> None:
    backend = provider.lifecycle._backend
    original = backend.drain

    async def drain(machine: MachineRecord, grace_seconds: int) -> None:
        await original(machine, grace_seconds)
        if grace_seconds == 0:
            raise TransitionFailed("no time to empty it")

    override(backend, original, drain)


@fails()
def without_grace_a_drain_fails_and_can_be_tried_again(provider: FakeProvider) -> None:
    """No rule is broken: FAILED is one of the two ends that the contract knows."""
    _zero_grace_drains_fail(provider)


@fails("DrainGraceTimeout")
def a_failed_drain_cannot_be_tried_again(provider: FakeProvider) -> None:
    _zero_grace_drains_fail(provider)

    def answer(call: Mutation) -> None:
        if call.kind is Kind.DRAIN and state_of(provider, call.machine_id) is S.FAILED:
            raise IllegalTransition("it is Failed")

    instead(provider, answer)


@fails("DrainGraceTimeout")
def a_recovered_machine_keeps_its_error(provider: FakeProvider) -> None:
    _zero_grace_drains_fail(provider)
    errors: dict[str, str] = {}

    def change(machine: pb.Machine) -> None:
        if machine.state == pb.FAILED:
            errors[machine.id] = machine.last_error
        elif machine.state == pb.SPECULATIVE:
            errors.pop(machine.id, None)
        machine.last_error = errors.get(machine.id, "")

    retouch(provider, change)


@fails("ConfigureWhileCreating")
def configure_of_a_machine_that_is_created_is_taken(provider: FakeProvider) -> None:
    _taken(provider, Kind.CONFIGURE, S.CREATING)


@fails("ConfigureWhileCreating")
def a_configure_that_came_too_early_leaves_its_trace(provider: FakeProvider) -> None:
    early: dict[str, dict[str, str]] = {}

    def note(call: Mutation) -> None:
        if call.kind is Kind.CONFIGURE and state_of(provider, call.machine_id) is S.CREATING:
            early[call.machine_id] = dict(call.metadata)

    def change(machine: pb.Machine) -> None:
        if machine.state == pb.IDLE:
            machine.shard_metadata.update(early.pop(machine.id, {}))

    instead(provider, note)
    retouch(provider, change, ("Get",))


@fails("DrainWhileConfiguring")
def drain_of_a_machine_that_is_configured_is_taken(provider: FakeProvider) -> None:
    _taken(provider, Kind.DRAIN, S.CONFIGURING)


@fails("DrainWhileConfiguring")
def a_drain_that_came_too_early_turns_the_machine_back(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.kind is Kind.DRAIN and state_of(provider, call.machine_id) is S.CONFIGURING:
            machine = provider.inventory.get(call.machine_id)
            provider.lifecycle._abandon(call.machine_id)
            return provider.lifecycle._accept(call, machine)
        return None

    instead(provider, answer)


@fails("DeleteWhileDraining")
def delete_of_a_machine_that_is_drained_is_taken(provider: FakeProvider) -> None:
    _taken(provider, Kind.DELETE, S.DRAINING)


@fails("RandomWalk")
def a_refused_create_costs_the_metadata(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.CREATE and state_of(provider, call.machine_id) is S.CONFIGURED:
            provider.inventory.put(replace(provider.inventory.get(call.machine_id), metadata={}))

    instead(provider, answer)


@fails("NodeReadiness")
def configured_when_the_blob_is_handed_over(provider: FakeProvider) -> None:
    provider.lifecycle._readiness = None


# --- idempotency -------------------------------------------------------------------------------------------------


def _operations_of_every_call(provider: FakeProvider, kind: Kind, state: MachineState) -> None:
    """A new operation id for every call that finds the machine in this state."""

    def answer(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.kind is kind and state_of(provider, call.machine_id) is state:
            provider.kit.state.fences.admit(call.token, call.machine_id)
            machine = provider.inventory.get(call.machine_id)
            return provider.kit.state.operations.new(call.machine_id, kind), machine
        return None

    instead(provider, answer)


@fails("CreateIdempotent", "ParallelRetriesAreOneOperation")
def every_create_is_an_operation(provider: FakeProvider) -> None:
    _operations_of_every_call(provider, Kind.CREATE, S.CREATING)


@fails("ConfigureIdempotent")
def every_configure_is_an_operation(provider: FakeProvider) -> None:
    _operations_of_every_call(provider, Kind.CONFIGURE, S.CONFIGURING)


@fails("DrainIdempotent")
def every_drain_is_an_operation(provider: FakeProvider) -> None:
    _operations_of_every_call(provider, Kind.DRAIN, S.DRAINING)


@fails("DeleteIdempotent")
def every_delete_is_an_operation(provider: FakeProvider) -> None:
    _operations_of_every_call(provider, Kind.DELETE, S.DELETING)


@fails("NoOpAtTargetKeepsTheOperation")
def a_call_with_nothing_to_do_is_an_operation(provider: FakeProvider) -> None:
    _operations_of_every_call(provider, Kind.CONFIGURE, S.CONFIGURED)


@fails("OperationIdsAreFreshPerCycle")
def one_operation_id_per_kind_for_ever(provider: FakeProvider) -> None:
    operations = provider.kit.state.operations
    original = operations.new

    def new(machine_id: str, kind: Kind) -> str:
        return (
            operations.get(machine_id, kind)
            if (machine_id, kind) in operations._numbers
            else original(machine_id, kind)
        )

    override(operations, original, new)


# --- fencing -----------------------------------------------------------------------------------------------------


@fails("FencingUnknownShardAccepted")
def a_first_sequence_above_one_is_stale(provider: FakeProvider) -> None:
    seen: set[tuple[str, str]] = set()

    def admit(original: Any, token: FencingToken, machine_id: str) -> None:
        key = (token.shard_id, machine_id)
        if token != UNFENCED and key not in seen and token.sequence == 77:
            raise Fenced("this shard must begin at 1")
        original(token, machine_id)
        seen.add(key)

    admission(provider, admit)


def _marks(provider: FakeProvider, stale: Callable[[tuple[int, int], tuple[int, int]], bool]) -> None:
    """Another comparison of tokens."""
    marks: dict[tuple[str, str], tuple[int, int]] = {}

    def admit(_: Any, token: FencingToken, machine_id: str) -> None:
        key, stamp = (token.shard_id, machine_id), (token.epoch, token.sequence)
        if token != UNFENCED:
            if key in marks and stale(stamp, marks[key]):
                raise Fenced("stale")
            marks[key] = max(stamp, marks.get(key, stamp))

    admission(provider, admit)


@fails(
    "FencingStaleEpochRejected",
    "FencingRandomStream",
    "ZombieAgainstLiveShard",
    "FencingBeforeIdempotency",
)
def an_old_epoch_passes_with_a_high_sequence(provider: FakeProvider) -> None:
    _marks(provider, lambda stamp, mark: stamp <= mark and stamp[1] <= mark[1])


@fails("FencingStaleSequenceRejected", "FencingRandomStream", "LargestToken")
def the_same_token_passes_again(provider: FakeProvider) -> None:
    _marks(provider, lambda stamp, mark: stamp < mark)


@fails("FencingNewEpochResetsSequence", "FencingRandomStream")
def a_new_epoch_must_count_on(provider: FakeProvider) -> None:
    _marks(provider, lambda stamp, mark: stamp <= mark or stamp[1] < mark[1])


@fails("FencingReadsUnaffected")
def a_fenced_shard_sees_nothing(provider: FakeProvider) -> None:
    fenced: set[str] = set()

    def admit(original: Any, token: FencingToken, machine_id: str) -> None:
        try:
            original(token, machine_id)
        except Fenced:
            fenced.add(token.shard_id)
            raise

    async def around(original: Any, request: Any, context: Any) -> Any:
        return pb.MachineList() if request.shard_id in fenced else await original(request, context)

    admission(provider, admit)
    wrap(provider, "List", around)


@fails("FencingPerMachineIsolation")
def one_mark_per_shard(provider: FakeProvider) -> None:
    admission(provider, lambda original, token, machine_id: original(token, "any"))


@fails("FencingPerShardIsolation")
def one_mark_per_machine(provider: FakeProvider) -> None:
    def admit(original: Any, token: FencingToken, machine_id: str) -> None:
        if token.epoch < 2**62:  # the largest token would fence all others off
            original(token._replace(shard_id="any") if token != UNFENCED else token, machine_id)
        elif token in seen:
            raise Fenced("stale")
        seen.add(token)

    seen: set[FencingToken] = set()
    admission(provider, admit)


@fails("FencingBeforeNotFound")
def nobody_is_not_found_before_the_fence(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.machine_id and call.machine_id not in provider.inventory:
            raise UnknownMachine(call.machine_id)

    instead(provider, answer)


@fails("FencingBeforeIdempotency", "FencingBeforePosition", "FencingRefusedCallAdvancesTheMark")
def configure_has_nothing_to_do_before_the_fence(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.kind is Kind.CONFIGURE and state_of(provider, call.machine_id) is S.CONFIGURED:
            return acknowledged(provider, call)
        return None

    instead(provider, answer)


@fails("FencingBeforePosition", "FencingRefusedCallAdvancesTheMark")
def positions_are_looked_at_before_the_fence(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.CREATE and state_of(provider, call.machine_id) is S.CONFIGURED:
            raise IllegalTransition("it is Configured")

    instead(provider, answer)


@fails("FencingRefusedCallAdvancesTheMark", "FencingBeforeNotFound")
def refused_calls_leave_no_mark(provider: FakeProvider) -> None:
    fences = provider.kit.state.fences
    original = provider.lifecycle.mutate

    def mutate(call: Mutation) -> tuple[str, MachineRecord]:
        before = dict(fences._marks), dict(fences._strangers)
        try:
            return original(call)
        except KitError:
            fences._marks, fences._strangers = before
            raise

    override(provider.lifecycle, original, mutate)


@fails("FencingAfterArguments")
def malformed_calls_leave_a_mark(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.grace_seconds < 0:
            provider.kit.state.fences.admit(call.token, call.machine_id)

    instead(provider, answer)


@fails("FencingZeroTokenBypasses", "NoOpAtTargetKeepsTheOperation", "RandomWalk")
def no_token_is_the_oldest_token(provider: FakeProvider) -> None:
    fences = provider.kit.state.fences

    # Calls that come at once may find the machine landed, on a slow host: only what was seen to be Idle counts.
    seen: set[str] = set()

    def look(machine: pb.Machine) -> None:
        if machine.state == pb.IDLE:
            seen.add(machine.id)

    def admit(original: Any, token: FencingToken, machine_id: str) -> None:
        if state_of(provider, machine_id) is not S.IDLE:
            seen.discard(machine_id)
        if token == UNFENCED and machine_id in seen and any(key[1] == machine_id for key in fences._marks):
            raise Fenced("a token is needed")
        original(token, machine_id)

    def only_creates(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.token == UNFENCED and call.kind is not Kind.CREATE and call.machine_id in provider.inventory:
            return original(replace(call, token=FencingToken("bypass", next(numbers))))
        return None

    numbers = itertools.count(1)
    original = provider.lifecycle.mutate
    instead(provider, only_creates)
    retouch(provider, look, ("Get",))
    admission(provider, admit)


@fails("FencingRandomStream")
def marks_that_wear_out(provider: FakeProvider) -> None:
    calls: dict[tuple[str, str], int] = {}
    fences = provider.kit.state.fences

    def admit(original: Any, token: FencingToken, machine_id: str) -> None:
        key = (token.shard_id, machine_id)
        calls[key] = calls.get(key, 0) + 1
        if calls[key] >= 30:
            fences._marks.pop(key, None)
        original(token, machine_id)

    admission(provider, admit)


# --- concurrency -------------------------------------------------------------------------------------------------


def _race(provider: FakeProvider, rpc: str, kind: Kind, source: MachineState) -> None:
    """Look at the machine, think about it, and act on what was seen."""

    async def around(original: Any, request: Any, context: Any) -> Any:
        if state_of(provider, request.machine_id) is not source or request.shard_id:
            return await original(request, context)
        machine = provider.inventory.get(request.machine_id)
        await asyncio.sleep(0.02)
        call = Mutation(kind, request.machine_id, UNFENCED, cluster=getattr(request, "cluster_id", ""))
        if metadata := getattr(request, "shard_metadata", None):
            call = replace(call, metadata=dict(metadata))
        operation, record = provider.lifecycle._accept(call, machine)
        return pb.TransitionAck(operation_id=operation, machine=record.write(pb.Machine(), "fake"))

    wrap(provider, rpc, around)


@fails("ParallelRetriesAreOneOperation")
def creates_that_race(provider: FakeProvider) -> None:
    _race(provider, "Create", Kind.CREATE, S.SPECULATIVE)


@fails("ConflictingCallsSerialise")
def configures_and_deletes_that_race(provider: FakeProvider) -> None:
    _race(provider, "Configure", Kind.CONFIGURE, S.IDLE)
    _race(provider, "Delete", Kind.DELETE, S.IDLE)


@fails("ZombieAgainstLiveShard")
def marks_that_race(provider: FakeProvider) -> None:
    at_once: dict[str, int] = {}
    fences = provider.kit.state.fences

    async def around(original: Any, request: Any, context: Any) -> Any:
        at_once[request.machine_id] = at_once.get(request.machine_id, 0) + 1
        try:
            crowd = at_once[request.machine_id] > 1
            await asyncio.sleep(0.005)
            answer = await original(request, context)
            if crowd:  # the older mark is written over the newer one
                fences._marks[request.shard_id, request.machine_id] = (0, 0)
            return answer
        finally:
            at_once[request.machine_id] -= 1

    wrap(provider, "Create", around)


# --- metadata ----------------------------------------------------------------------------------------------------


@fails("MetadataEchoedOnGetAndList")
def list_without_metadata(provider: FakeProvider) -> None:
    retouch(provider, lambda machine: machine.ClearField("shard_metadata"), ("List",))


@fails("MetadataUnknownKeysPreservedVerbatim", "MetadataHostileMap", "MetadataIsNotShared", "OversizeConfigure")
def only_known_keys_are_kept(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        for key in list(machine.shard_metadata):
            if not key.startswith("bigfleet.lucy.sh/"):
                del machine.shard_metadata[key]

    retouch(provider, change)


@fails("MetadataHostileMap")
def control_characters_are_stripped(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        for key, value in list(machine.shard_metadata.items()):
            machine.shard_metadata[key] = value.replace("\x7f", "")

    retouch(provider, change)


@fails("MetadataVisibleDuringConfiguring")
def metadata_appears_at_configured(provider: FakeProvider) -> None:
    def change(machine: pb.Machine) -> None:
        if machine.state == pb.CONFIGURING:
            machine.ClearField("shard_metadata")

    retouch(provider, change)


@fails("MetadataAndBindingClearOnDrain", "RandomWalk")
def metadata_outlives_the_binding(provider: FakeProvider) -> None:
    last: dict[str, dict[str, str]] = {}

    def change(machine: pb.Machine) -> None:
        if machine.state == pb.CONFIGURED:
            last[machine.id] = dict(machine.shard_metadata)
        elif machine.state == pb.IDLE:
            machine.shard_metadata.update(last.get(machine.id, {}))

    retouch(provider, change, ("Get",))


@fails("MetadataIsNotShared")
def all_machines_share_one_map(provider: FakeProvider) -> None:
    newest: dict[str, str] = {}

    def note(call: Mutation) -> None:
        if call.kind is Kind.CONFIGURE and call.metadata:
            newest.clear()
            newest.update(call.metadata)

    def change(machine: pb.Machine) -> None:
        if machine.state == pb.CONFIGURED and machine.shard_metadata:
            machine.ClearField("shard_metadata")
            machine.shard_metadata.update(newest)

    instead(provider, note)
    retouch(provider, change)

"""Which tokens are taken, done wrongly."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.kit.errors import (
    Fenced,
    IllegalTransition,
    KitError,
    UnknownMachine,
)
from bigfleet.provider.kit.lifecycle import Mutation
from bigfleet.rpc.fencing import UNFENCED, FencingToken
from tests.integration.bigfleet.conformance.mutants.breaking import (
    acknowledged,
    admission,
    fails,
    instead,
    override,
    retouch,
    state_of,
    wrap,
)

S = MachineState


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

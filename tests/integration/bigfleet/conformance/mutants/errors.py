"""How calls are refused, done wrongly."""

from dataclasses import replace
from typing import Any

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.kit.errors import (
    Fenced,
    IllegalTransition,
    InvalidArgument,
    KitError,
    UnknownMachine,
)
from bigfleet.provider.kit.lifecycle import Mutation
from bigfleet.rpc.fencing import UNFENCED
from tests.integration.bigfleet.conformance.mutants.breaking import (
    Break,
    fails,
    instead,
    override,
    retouch,
    state_of,
    taken,
)

S = MachineState


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


@fails("DrainOnSpeculative", "RandomWalk")
def drain_of_a_slot_istaken(provider: FakeProvider) -> None:
    taken(provider, Kind.DRAIN, S.SPECULATIVE)


@fails("DrainOnSpeculative", "RandomWalk")
def drain_of_a_slot_looks_fenced(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.DRAIN and state_of(provider, call.machine_id) is S.SPECULATIVE:
            raise Fenced("not now")

    instead(provider, answer)


@fails("ConfigureOnSpeculative", "RandomWalk")
def configure_of_a_slot_istaken(provider: FakeProvider) -> None:
    taken(provider, Kind.CONFIGURE, S.SPECULATIVE)


@fails("ConfigureOnSpeculative", "RandomWalk")
def a_refused_configure_leaves_its_trace(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.CONFIGURE and state_of(provider, call.machine_id) is S.SPECULATIVE:
            provider.inventory.put(replace(provider.inventory.get(call.machine_id), metadata={"k": "v"}))

    instead(provider, answer)


@fails("CreateOnConfigured", "FencingRefusedCallAdvancesTheMark", "RandomWalk")
def create_of_a_bound_machine_istaken(provider: FakeProvider) -> None:
    taken(provider, Kind.CREATE, S.CONFIGURED)


@fails("DeleteOnConfigured", "RandomWalk")
def delete_of_a_bound_machine_istaken(provider: FakeProvider) -> None:
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

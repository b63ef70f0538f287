"""How a machine goes from state to state, done wrongly."""

import asyncio
from dataclasses import replace

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.kit.errors import (
    IllegalTransition,
    TransitionFailed,
)
from bigfleet.provider.kit.lifecycle import Mutation
from tests.integration.bigfleet.conformance.mutants.breaking import (
    after,
    fails,
    instead,
    override,
    retouch,
    state_of,
    taken,
)

S = MachineState


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
def configure_of_a_machine_that_is_created_istaken(provider: FakeProvider) -> None:
    taken(provider, Kind.CONFIGURE, S.CREATING)


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
def drain_of_a_machine_that_is_configured_istaken(provider: FakeProvider) -> None:
    taken(provider, Kind.DRAIN, S.CONFIGURING)


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
def delete_of_a_machine_that_is_drained_istaken(provider: FakeProvider) -> None:
    taken(provider, Kind.DELETE, S.DRAINING)


@fails("RandomWalk")
def a_refused_create_costs_the_metadata(provider: FakeProvider) -> None:
    def answer(call: Mutation) -> None:
        if call.kind is Kind.CREATE and state_of(provider, call.machine_id) is S.CONFIGURED:
            provider.inventory.put(replace(provider.inventory.get(call.machine_id), metadata={}))

    instead(provider, answer)


@fails("NodeReadiness")
def configured_when_the_blob_is_handed_over(provider: FakeProvider) -> None:
    provider.lifecycle._readiness = None

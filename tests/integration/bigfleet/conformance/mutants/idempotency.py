"""What a call does that is made twice, done wrongly."""

from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.kit.lifecycle import Mutation
from tests.integration.bigfleet.conformance.mutants.breaking import fails, instead, override, state_of

S = MachineState


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

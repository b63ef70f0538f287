"""What List answers: filters, cursors, deltas, pages, done wrongly."""

from typing import Any

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit.lifecycle import Mutation
from tests.integration.bigfleet.conformance.mutants.breaking import after, fails, instead, retouch, wrap

S = MachineState


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

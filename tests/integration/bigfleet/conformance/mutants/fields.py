"""What a machine's record says, done wrongly."""

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.requirements import ZONE_KEY
from bigfleet.provider.fake.server import FakeProvider
from tests.integration.bigfleet.conformance.mutants.breaking import after, fails, retouch


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

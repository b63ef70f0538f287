"""What becomes of a machine's shard_metadata, done wrongly."""

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind
from bigfleet.provider.kit.lifecycle import Mutation
from tests.integration.bigfleet.conformance.mutants.breaking import fails, instead, retouch


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

"""The part of a Pod on which its CapacityRequest depends: while it stays equal, there is nothing to do."""

from collections.abc import Mapping
from typing import Any

import msgspec

from bigfleet.kube import ObjectMeta, Subset

INTERRUPTION_PENALTY = "bigfleet.lucy.sh/interruption-penalty"
RECLAMATION_PENALTY = "bigfleet.lucy.sh/reclamation-penalty"

# As the apiserver writes them; manifests may have bare numbers.
Quantities = dict[str, str | int | float]


class Annotations(msgspec.Struct):
    """Those that we read: dollars as a quantity, or whatever was written instead."""

    interruption_penalty: str | None = msgspec.field(default=None, name=INTERRUPTION_PENALTY)
    reclamation_penalty: str | None = msgspec.field(default=None, name=RECLAMATION_PENALTY)


class PodMetadata(ObjectMeta):
    uid: str = ""
    annotations: Annotations = msgspec.field(default_factory=Annotations)
    deletion_timestamp: str | None = None


class Resources(msgspec.Struct):
    requests: Quantities = {}


class Port(msgspec.Struct, rename="camel"):
    host_port: int = 0


class Container(msgspec.Struct, rename="camel"):
    resources: Resources = msgspec.field(default_factory=Resources)
    restart_policy: str = ""
    ports: list[Port] = []


class Volume(msgspec.Struct, rename="camel"):
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None

    @property
    def claimed(self) -> bool:
        """Whether it is a PersistentVolume: those are bound to some nodes, as a rule to a zone."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None


class PodSpec(msgspec.Struct, rename="camel"):
    containers: list[Container] = []
    init_containers: list[Container] = []
    affinity: dict[str, Any] = {}
    node_selector: dict[str, str] = {}
    overhead: Quantities = {}
    priority: int = 0
    priority_class_name: str = ""
    resource_claims: list[Any] = []
    resources: Resources = msgspec.field(default_factory=Resources)
    topology_spread_constraints: list[dict[str, Any]] = []
    volumes: list[Volume] = []


class PodStatus(msgspec.Struct):
    phase: str = ""


class Pod(Subset):
    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def ended(self) -> bool:
        """It asks for nothing any more. One that is being deleted has a successor with a request of its own
        (ADR-7)."""
        return self.metadata.deletion_timestamp is not None or self.status.phase in ("Succeeded", "Failed")


def read_pod(manifest: Mapping[str, Any]) -> Pod:
    """The same of a Pod, or of a Pod template, that no apiserver has seen."""
    return msgspec.convert(manifest, Pod)

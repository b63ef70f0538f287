"""Pods and their controllers: counted, not named."""

from collections import Counter
from dataclasses import dataclass

from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import Vector
from bigfleet.scheduling.placement import Ints


@dataclass(frozen=True)
class PodClass:
    """What each Pod of a controller asks for. `profile` holds Same for a gang, whose members share `group`."""

    profile: NeedProfile
    resources: Vector
    group: str = ""
    # The kind of workload, which nodes may have been made for; the controller's own if empty.
    kind: str = ""
    # Controllers whose Pods a hard spread counts together; only the controller's own if empty.
    counted_with: str = ""


class Controller:
    """Keeps a number of equal Pods alive."""

    def __init__(self, name: str, pod: PodClass, replicas: int, vector: Ints) -> None:
        self.name = name
        self.pod = pod
        self.kind = pod.kind or name
        self.counted_with = pod.counted_with or name
        self.vector = vector
        self.replicas = replicas
        self.pending = replicas
        self.bound = 0
        # Pods on each node.
        self.placed: Counter[str] = Counter()
        # Pods that ended and whose replacement does not exist yet.
        self.missing = 0

    @property
    def alive(self) -> int:
        return self.bound + self.pending

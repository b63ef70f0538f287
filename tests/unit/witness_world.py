"""A cluster's objects for the witness, trimmed as the load-driver trims them, and a clock that tests move."""

from typing import Any

from scaletest.cluster.witness.auditor import Witness
from scaletest.cluster.witness.blindness import Sight
from scaletest.cluster.witness.figures import Figures
from scaletest.cluster.witness.seen import SeenNode, SeenPod, SeenRequest
from scaletest.model.demand.draw import Workload
from scaletest.model.documents.catalog import Archetype, Gang, LabelAxis, Size, SpreadConstraint

TEAM = LabelAxis(key="example.com/team", count=3)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def workload(
    name: str = "web-0", *, cpu: str = "2", priority: int = 100, zones: tuple[str, ...] = ("zone-a",), **fields: Any
) -> Workload:
    size = Size(resources={"cpu": cpu, "memory": "4Gi"})
    archetype = Archetype(
        name=name.partition("-")[0],
        instance_types=("m6i.large", "m6i.xlarge"),
        zones=zones,
        sizes=(size,),
        **fields,
    )
    gang = f"{name}-group" if archetype.gang else ""
    axes = (1,) * len(archetype.label_axes)
    return Workload(name, archetype, 5, size, priority, archetype.spread is not None, gang, axes)


WEB = workload("web-0")
SPREAD = workload(
    "api-0",
    priority=1000,
    zones=("zone-a", "zone-b"),
    spread=SpreadConstraint(when_unsatisfiable="DoNotSchedule"),
)
GANG = workload("trainer-0", cpu="64", priority=1_000_000, gang=Gang(scope="sameRack", group_size_range=(3, 4)))
TEAMED = workload("job-0", priority=0, label_axes=(TEAM,))
ALL = {one.name: one for one in (WEB, SPREAD, GANG, TEAMED)}


def pod(uid: str, of: Workload = WEB, **changes: Any) -> SeenPod:
    return SeenPod(**({"uid": uid, "name": f"pod-{uid}", "workload": of.name} | changes))


def request(uid: str, pod: str, spec: str = "", **changes: Any) -> SeenRequest:
    return SeenRequest(**({"uid": uid, "pod": pod, "owner": f"pod-{pod}", "spec": spec} | changes))


def node(name: str = "fake-1", *, cpu: int = 4, **changes: Any) -> SeenNode:
    labels = {"node.kubernetes.io/instance-type": "m6i.large", "topology.kubernetes.io/zone": "zone-a"}
    allocatable = {"cpu": cpu * 1000, "memory": 8 * 2**30 * 1000, "pods": 1_100_000}
    fields: dict[str, Any] = {"name": name, "labels": labels, "allocatable": allocatable, "ready": True}
    return SeenNode(**(fields | changes))


class World:
    """A witness over some workloads, its clock, and its figures by name."""

    def __init__(self, *, without_pods: bool = False) -> None:
        self.clock = Clock()
        self.arrivals: list[str] = []
        self.witness = Witness(ALL, without_pods=without_pods, sight=Sight(self.clock), on_arrival=self.arrivals.append)
        self.ready = True
        self.witness.tick()

    def wait(self, seconds: int) -> None:
        """The witness ticks all the while."""
        for _ in range(seconds):
            self.clock.now += 1
            self.witness.tick()

    def stand_still(self, seconds: float) -> None:
        """The witness does not run, though time goes on; then it ticks again."""
        self.clock.now += seconds
        self.witness.tick()

    def figures(self) -> dict[str, float]:
        """`name{labels}` without the prefix → value."""
        shown: dict[str, float] = {}
        for family in Figures(self.witness, lambda: 20, lambda: self.ready).collect():
            for sample in family.samples:
                labels = ",".join(sample.labels.values())
                name = sample.name.removeprefix("scaletest_witness_")
                shown[f"{name}{{{labels}}}" if labels else name] = sample.value
        return shown

    def __getitem__(self, name: str) -> float:
        return self.figures()[name]

"""What the cluster's Nodes offer, against what lives in it: amounts that are lacking, and Pods that fit nowhere."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.kube import Object
from bigfleet.watermarks import Watermarks
from scaletest.cluster.witness.ages import Ages
from scaletest.cluster.witness.amounts import Amounts, amounts_of
from scaletest.model.draw import Workload

# Machines of BigFleet's; the canary's Node is none.
NODE_PREFIX = "fake-"
# So long the Pods of a lost machine live on (ADR-25), and its replacement may take.
KEPT_SECONDS = 30.0


@dataclass(frozen=True)
class Place:
    """All of a Node that decides whether a Pod could ever be there: values of the labels asked for, and its size."""

    labels: tuple[tuple[str, str], ...]
    allocatable: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PlaceNeed:
    """What a Pod asks of its Node; workloads that ask for the same are looked up together."""

    allowed: tuple[tuple[str, tuple[str, ...]], ...]
    resources: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, workload: Workload) -> "PlaceNeed":
        allowed = {INSTANCE_TYPE_KEY: workload.archetype.instance_types, ZONE_KEY: workload.archetype.zones}
        allowed |= {key: (value,) for key, value in workload.node_labels.items()}
        return cls(tuple(sorted(allowed.items())), tuple(sorted(amounts_of(workload.size.resources).items())))

    def fits(self, place: Place) -> bool:
        labels, offered = dict(place.labels), dict(place.allocatable)
        return all(labels.get(key) in values for key, values in self.allowed) and all(
            offered.get(name, 0) >= milli for name, milli in self.resources
        )


class Offer:
    """Ready Nodes, and those that went a moment ago. A cordoned Node is one that went."""

    def __init__(self, workloads: Collection[Workload], clock: Callable[[], float]) -> None:
        self._clock = clock
        needs = {PlaceNeed.of(workload) for workload in workloads}
        self._keys = sorted({key for need in needs for key, _ in need.allowed})
        resources = sorted({name for need in needs for name, _ in need.resources})
        # In milli-units.
        self.allocatable = {name: Watermarks(0, clock=clock) for name in resources}
        self.places: Counter[Place] = Counter()
        # Rises when a Pod may fit that did not before, or the other way round.
        self.version = 0
        self._gone: dict[str, tuple[float, Amounts]] = {}

    def on_change(self, old: Object | None, new: Object | None) -> None:
        """Follow Nodes, trimmed to `name`, `labels`, `allocatable` and `ready`."""
        node = new or old
        if old == new or node is None or not node["name"].startswith(NODE_PREFIX):
            return
        if old and old["ready"]:
            self._add(old, -1)
            self._gone[old["name"]] = (self._clock(), self._offered(old))
        if new and new["ready"]:
            self._replaced(new)
            self._add(new, 1)

    def _replaced(self, node: Object) -> None:
        """A Node that is back, or one as large as the Node that went first, counts in its place and not beside it."""
        offered = self._offered(node)
        same = (name for name, (_, gone) in self._gone.items() if gone == offered)
        if (name := node["name"] if node["name"] in self._gone else next(same, None)) is not None:
            del self._gone[name]

    def _add(self, node: Object, number: int) -> None:
        offered = self._offered(node)
        for name, milli in offered.items():
            self.allocatable[name].add(number * milli)
        labels = node["labels"]
        place = Place(tuple((key, labels[key]) for key in self._keys if key in labels), tuple(offered.items()))
        self.places[place] += number
        if not self.places[place]:
            del self.places[place]
        if self.places[place] == (number if number > 0 else 0):
            self.version += 1

    def _offered(self, node: Object) -> Amounts:
        return {name: node["allocatable"].get(name, 0) for name in self.allocatable}

    def uncovered(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """By resource, what is wanted beyond what Nodes offer or did a moment ago."""
        since = self._clock() - KEPT_SECONDS
        self._gone = {name: gone for name, gone in self._gone.items() if gone[0] >= since}
        kept: Counter[str] = Counter()
        for _, offered in self._gone.values():
            kept.update(offered)
        return {
            name: max(0, wanted.get(name, 0) - int(figure.value) - kept[name])
            for name, figure in self.allocatable.items()
        }


class Uncovered:
    """Since when the demand has not been covered."""

    def __init__(self, offer: Offer, wanted: Callable[[], Mapping[str, int]], clock: Callable[[], float]) -> None:
        self._offer = offer
        self._wanted = wanted
        self._clock = clock
        self._since: float | None = None
        self.amounts: dict[str, int] = offer.uncovered({})

    @property
    def seconds(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since

    def look(self) -> None:
        self.amounts = self._offer.uncovered(self._wanted())
        if not any(self.amounts.values()):
            self._since = None
        elif self._since is None:
            self._since = self._clock()


class Lacking:
    """Pods without a node for which no Ready Node would do, however empty it were."""

    def __init__(self, offer: Offer, workloads: Mapping[str, Workload], clock: Callable[[], float]) -> None:
        self._offer = offer
        self._clock = clock
        self._needs = {name: PlaceNeed.of(workload) for name, workload in workloads.items()}
        # Workload → its Pods that wait for a node.
        self._pending: dict[str, Ages] = {}
        # Workload → since when no Node would do.
        self._since: dict[str, float] = {}
        self._fitting: dict[PlaceNeed, bool] = {}
        self._version = -1

    def begin(self, uid: str, workload: str) -> None:
        if workload in self._needs:
            self._pending.setdefault(workload, Ages()).begin(uid, self._clock())

    def end(self, uid: str, workload: str) -> None:
        pending = self._pending.get(workload)
        if pending is not None:
            pending.end(uid)
            if not pending:
                del self._pending[workload]

    def look(self) -> None:
        now = self._clock()
        lacking = [name for name in self._pending if not self._fits_somewhere(self._needs[name])]
        self._since = {name: self._since.get(name, now) for name in lacking}

    def _fits_somewhere(self, need: PlaceNeed) -> bool:
        if self._version != self._offer.version:
            self._version = self._offer.version
            self._fitting.clear()
        if need not in self._fitting:
            self._fitting[need] = any(need.fits(place) for place in self._offer.places)
        return self._fitting[need]

    @property
    def count(self) -> int:
        return sum(len(self._pending.get(name, ())) for name in self._since)

    @property
    def oldest_seconds(self) -> float:
        """Of the Pod that has both waited and lacked a Node for longest."""
        began = [
            max(since, self._pending[name].began() or since)
            for name, since in self._since.items()
            if name in self._pending
        ]
        return max(0.0, self._clock() - min(began)) if began else 0.0

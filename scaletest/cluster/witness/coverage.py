"""What the cluster's Nodes offer, against what lives in it: amounts that are lacking, and Pods that fit nowhere."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from bigfleet.process.watermarks import Watermarks
from scaletest.cluster.witness.ages import Ages
from scaletest.cluster.witness.amounts import Amounts
from scaletest.cluster.witness.rooms import (
    Allowed,
    DomainRule,
    Place,
    PlaceNeed,
    is_within,
    rooms_by_domain,
    rule_of,
)
from scaletest.cluster.witness.seen import SeenNode
from scaletest.model.demand.draw import Workload

# Every Node, for what all Pods ask of all Nodes together.
_ANYWHERE: Allowed = ()

# Machines of BigFleet's; the canary's Node is none.
NODE_PREFIX = "fake-"
# So long the Pods of a lost machine live on (ADR-25), and its replacement may take.
KEPT_SECONDS = 30.0


class Offer:
    """Ready Nodes, and those that went a moment ago. A cordoned Node is one that went."""

    def __init__(self, workloads: Mapping[str, Workload], clock: Callable[[], float]) -> None:
        self._clock = clock
        self.needs = {name: PlaceNeed.of(workload) for name, workload in workloads.items()}
        rules = [rule for workload in workloads.values() if (rule := rule_of(workload))]
        needs = set(self.needs.values())
        self._keys = sorted({key for need in needs for key, _ in need.allowed} | {rule.key for rule in rules})
        resources = sorted({name for need in needs for name, _ in need.resources})
        # A set of Nodes that some Pods must be on → what such Pods, and those that are more particular, need.
        self._asking = {
            allowed: [need for need in needs if is_within(need.allowed, allowed)]
            for allowed in {_ANYWHERE, *(need.allowed for need in needs)}
        }
        # In milli-units.
        self.allocatable = {name: Watermarks(0, clock=clock) for name in resources}
        self.places: Counter[Place] = Counter()
        # Rises with every Node that comes or goes.
        self.version = 0
        self._gone: dict[str, tuple[float, Place]] = {}
        self._sums: dict[Allowed, Amounts] = {}

    def on_change(self, old: SeenNode | None, new: SeenNode | None) -> None:
        """Follow Nodes."""
        node = new or old
        if old == new or node is None or not node.name.startswith(NODE_PREFIX):
            return
        if old and old.ready:
            self._add(old, -1)
            self._gone[old.name] = (self._clock(), self._place(old))
        if new and new.ready:
            self._replaced(new)
            self._add(new, 1)

    def _replaced(self, node: SeenNode) -> None:
        """A Node that is back, or one as large as the Node that went first, counts in its place and not beside it."""
        offered = self._place(node).allocatable
        same = (name for name, (_, gone) in self._gone.items() if gone.allocatable == offered)
        if (name := node.name if node.name in self._gone else next(same, None)) is not None:
            del self._gone[name]

    def _add(self, node: SeenNode, number: int) -> None:
        place = self._place(node)
        for name, milli in place.allocatable:
            self.allocatable[name].add(number * milli)
        self.places[place] += number
        if not self.places[place]:
            del self.places[place]
        self.version += 1
        self._sums.clear()

    def _place(self, node: SeenNode) -> Place:
        labels = node.labels
        return Place(
            tuple((key, labels[key]) for key in self._keys if key in labels),
            tuple((name, node.allocatable.get(name, 0)) for name in self.allocatable),
        )

    def uncovered(self, living: Mapping[str, int]) -> dict[str, int]:
        """By resource, what living Pods want of some Nodes beyond what those offer or did a moment ago.

        Whatever set of Nodes lacks most of it: machines of the wrong kind cover nothing.
        """
        since = self._clock() - KEPT_SECONDS
        self._gone = {name: gone for name, gone in self._gone.items() if gone[0] >= since}
        wanted: Counter[PlaceNeed] = Counter()
        for workload, count in living.items():
            if workload in self.needs:  # not of a Pod that was made by hand
                wanted[self.needs[workload]] += count
        lacking = dict.fromkeys(self.allocatable, 0)
        for allowed, needs in self._asking.items():
            left = Counter(self._sum(allowed))
            for _, place in self._gone.values():
                if place.is_allowed(allowed):
                    left.update(dict(place.allocatable))
            for need in needs:
                left.subtract({name: milli * wanted[need] for name, milli in need.resources})
            for name in lacking:
                lacking[name] = max(lacking[name], -left[name])
        return lacking

    def _sum(self, allowed: Allowed) -> Amounts:
        """What all Ready Nodes offer that these labels allow."""
        if allowed not in self._sums:
            sums: Counter[str] = Counter()
            for place, count in self.places.items():
                if place.is_allowed(allowed):
                    sums.update({name: count * milli for name, milli in place.allocatable})
            self._sums[allowed] = dict(sums)
        return self._sums[allowed]


class Uncovered:
    """Since when the demand has not been covered."""

    def __init__(self, offer: Offer, living: Mapping[str, int], clock: Callable[[], float]) -> None:
        self._offer = offer
        # Workload → its living Pods.
        self._living = living
        self._clock = clock
        self._since: float | None = None
        self.amounts: dict[str, int] = offer.uncovered({})

    @property
    def seconds(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since

    def look(self) -> None:
        self.amounts = self._offer.uncovered(self._living)
        if not any(self.amounts.values()):
            self._since = None
        elif self._since is None:
            self._since = self._clock()


class Lacking:
    """Pods without a node which the Ready Nodes could not take, were they empty.

    No Node is what the Pod asks for, or no rack can hold its gang, or its spread finds too little in one zone.
    """

    def __init__(
        self,
        offer: Offer,
        workloads: Mapping[str, Workload],
        living: Mapping[str, int],
        clock: Callable[[], float],
    ) -> None:
        self._offer = offer
        self._living = living
        self._clock = clock
        self._needs = offer.needs
        self._rules = {name: rule for name, workload in workloads.items() if (rule := rule_of(workload))}
        self._under: dict[DomainRule, list[str]] = defaultdict(list)
        for name, rule in self._rules.items():
            self._under[rule].append(name)
        # Workload → its Pods that wait for a node.
        self._pending: dict[str, Ages] = {}
        # Workload → since when no Node would do.
        self._since: dict[str, float] = {}
        self._fitting: dict[PlaceNeed, bool] = {}
        self._rooms: dict[DomainRule, list[int]] = {}
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
        if self._version != self._offer.version:
            self._version = self._offer.version
            self._fitting.clear()
            self._rooms.clear()
        rules = {rule for name in self._pending if (rule := self._rules.get(name))}
        broken = {rule for rule in rules if not self._holds(rule)}
        lacking = [
            name
            for name in self._pending
            if not self._fits_somewhere(self._needs[name]) or self._rules.get(name) in broken
        ]
        self._since = {name: self._since.get(name, now) for name in lacking}

    def _fits_somewhere(self, need: PlaceNeed) -> bool:
        if need not in self._fitting:
            self._fitting[need] = any(need.fits(place) for place in self._offer.places)
        return self._fitting[need]

    def _holds(self, rule: DomainRule) -> bool:
        if rule not in self._rooms:
            self._rooms[rule] = rooms_by_domain(rule.key, rule.need, self._offer.places)
        return rule.holds([self._living.get(name, 0) for name in self._under[rule]], self._rooms[rule])

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

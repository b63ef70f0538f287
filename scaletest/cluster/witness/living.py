"""The demand of what lives in the cluster: living Pods, or CapacityRequests where there are none."""

from collections import Counter
from collections.abc import Callable, Mapping

from bigfleet.process.watermarks import Watermarks
from scaletest.cluster.witness.needs import Combination, need_of
from scaletest.model.demand.draw import Workload

# Three roll-up intervals.
BEHIND_SECONDS = 30.0


class Living:
    """Follows Pods that come and go; each of them takes one step for each resource that the Pod asks for."""

    def __init__(self, workloads: Mapping[str, Workload], clock: Callable[[], float]) -> None:
        self.count = Watermarks(0, clock=clock)
        self.of_workload: Counter[str] = Counter()
        # In milli-units. Every combination that the course ever has is there from the start.
        self.demand: dict[Combination, Watermarks] = {}
        self.largest: dict[Combination, int] = {}
        # Living Pods of each workload, with the fewest and the most for as long as an engine's view may be behind.
        self.lately = {name: Watermarks(0, BEHIND_SECONDS, clock) for name in workloads}
        self._parts: dict[str, list[tuple[Watermarks, int]]] = {}
        for name, workload in workloads.items():
            combinations = need_of(workload).combinations
            for combination, milli in combinations.items():
                self.demand.setdefault(combination, Watermarks(0, clock=clock))
                self.largest[combination] = max(milli, self.largest.get(combination, 0))
            self._parts[name] = [(self.demand[combination], milli) for combination, milli in combinations.items()]

    def came(self, workload: str) -> None:
        self._add(workload, 1)

    def went(self, workload: str) -> None:
        self._add(workload, -1)

    def _add(self, workload: str, number: int) -> None:
        self.count.add(number)
        self.of_workload[workload] += number
        # A user may have made a Pod by hand that carries our label: what it should ask for is unknown.
        if workload in self.lately:
            self.lately[workload].add(number)
        for figure, milli in self._parts.get(workload, ()):
            figure.add(number * milli)

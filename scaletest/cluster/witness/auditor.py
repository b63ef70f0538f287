"""The witness of one cluster: hears of every Pod, CapacityRequest and Node, and keeps its figures as they change."""

from collections.abc import Callable, Mapping

from bigfleet.process.watermarks import Watermarks
from scaletest.cluster.witness.blindness import Sight
from scaletest.cluster.witness.coverage import Lacking, Offer, Uncovered
from scaletest.cluster.witness.expected import Expected
from scaletest.cluster.witness.held_needs import HeldNeeds
from scaletest.cluster.witness.living import Living
from scaletest.cluster.witness.requests import Acknowledgements, Pairs
from scaletest.cluster.witness.seen import SeenNode, SeenPod, SeenRequest
from scaletest.model.demand.draw import Workload


class Witness:
    """Follows three informers. In CR mode there are no Pods: the CapacityRequests are what lives."""

    def __init__(
        self,
        workloads: Mapping[str, Workload],
        *,
        without_pods: bool = False,
        sight: Sight | None = None,
        on_arrival: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.without_pods = without_pods
        self.sight = sight or Sight()
        now = self.sight.now
        self.living = Living(workloads, now)
        self.held = HeldNeeds(workloads, self.living, now)
        self.requests = Watermarks(0, clock=now)
        self.acknowledgements = Acknowledgements(now)
        self.pairs = Pairs(Expected(workloads), now)
        self.offer = Offer(workloads, now)
        self.uncovered = Uncovered(self.offer, self.living.of_workload, now)
        self.lacking = Lacking(self.offer, workloads, self.living.of_workload, now)
        # Told the workload of everything that begins to live.
        self._on_arrival = on_arrival

    def on_pod(self, old: SeenPod | None, new: SeenPod | None) -> None:
        """Follow Pods."""
        before = old if old and old.alive else None
        now = new if new and new.alive else None
        if before and now and before.uid == now.uid:
            if now.node and not before.node:
                self.lacking.end(now.uid, now.workload)
            return
        if before:
            self._pod_went(before)
        if now:
            self._pod_came(now)

    def _pod_came(self, pod: SeenPod) -> None:
        workload = pod.workload
        self.living.came(workload)
        self.pairs.pod_came(pod)
        if not pod.node:
            self.lacking.begin(pod.uid, workload)
        self._on_arrival(workload)

    def _pod_went(self, pod: SeenPod) -> None:
        self.living.went(pod.workload)
        self.pairs.pod_went(pod.uid)
        self.lacking.end(pod.uid, pod.workload)

    def on_request(self, old: SeenRequest | None, new: SeenRequest | None) -> None:
        """Follow CapacityRequests."""
        self.acknowledgements.on_change(old, new)
        before = old if old and not old.leaving else None
        now = new if new and not new.leaving else None
        if before is None or now is None:
            self.requests.add((now is not None) - (before is not None))
        if not self.without_pods:
            self.pairs.on_request(old, new)
        elif before is None or now is None or before.uid != now.uid:
            if before:
                self.living.went(before.workload)
            if now:
                self.living.came(now.workload)
                self._on_arrival(now.workload)

    def on_node(self, old: SeenNode | None, new: SeenNode | None) -> None:
        """Follow Nodes."""
        self.offer.on_change(old, new)

    def tick(self) -> None:
        """Look at what no single change tells; to be called every TICK_SECONDS."""
        self.sight.tick()
        self.uncovered.look()
        if not self.without_pods:
            self.lacking.look()

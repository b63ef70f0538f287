"""What drains do: they cordon a Node and evict its Pods before it goes, and neither delete nor leave them. Pure."""

from typing import Literal, NamedTuple

from scaletest.cluster.nodes.pods_by_node import PodsByNode
from scaletest.cluster.nodes.trims import KeptPod

# A Pod that was evicted in time is seen to leave within this time: Nodes and Pods come by different watches. It is
# shorter than the 30 s after which the Pods of a Node that has gone are ended (ADR-25).
SETTLED_SECONDS = 5.0
# A Pod that came so shortly before its Node went may have been placed by kube-scheduler before the cordon, and bound
# after the operator's last look: no drain can help it.
BOUND_SECONDS = 5.0


def leaves(old: KeptPod | None, new: KeptPod | None) -> Literal["evicted", "deleted"] | None:
    """How a Pod that lived is made to leave by this change; None if it is not.

    The apiserver marks a Pod that is evicted before it deletes it.
    """
    if old is None or not old.lives or (new is not None and not new.leaving):
        return None
    return "evicted" if (new or old).evicted else "deleted"


class Drained(NamedTuple):
    """A Node that has gone by a drain."""

    node: str
    # How many Pods it has cut off.
    cut_off: int
    # Whether new Pods were kept away from it before it went.
    cordoned: bool


class _Departure(NamedTuple):
    node: str
    cordoned: bool
    # Uids of the Pods that lived on it when it went, and had for a while.
    pods: frozenset[str]
    at: float


class CutOff:
    """Judges each Node that goes by a drain, a moment later: the Pods that are on it still were cut off.

    Why a Node goes may be told before it goes or after. A machine that was lost is not drained, even if BigFleet was
    about to drain it: its Pods live on for a while, and that is no finding.
    """

    def __init__(self, pods: PodsByNode) -> None:
        self._pods = pods
        self._ends: dict[str, Literal["drained", "lost"]] = {}
        # In the order in which they went.
        self._departures: dict[str, _Departure] = {}

    def came(self, node: str) -> None:
        """The Node of a new binding: what ended the one before says nothing of it."""
        self._ends.pop(node, None)
        self._departures.pop(node, None)

    def drained(self, node: str) -> None:
        """BigFleet says that the Node was drained, or the provider that its machine was."""
        self._ends.setdefault(node, "drained")

    def lost(self, node: str) -> None:
        self._ends[node] = "lost"

    def went(self, node: str, now: float, *, cordoned: bool = True) -> None:
        """The Node has gone."""
        self._departures[node] = _Departure(node, cordoned, self._living_on(node, BOUND_SECONDS), now)

    def judged(self, now: float) -> list[Drained]:
        """The Nodes that were drained and whose time is over, each told once."""
        due = []
        for departure in self._departures.values():
            if departure.at > now - SETTLED_SECONDS:
                break  # the others went later still
            due.append(departure)
        for departure in due:
            del self._departures[departure.node]
        return [
            Drained(departure.node, len(departure.pods & self._living_on(departure.node)), departure.cordoned)
            for departure in due
            if self._ends.pop(departure.node, None) == "drained"
        ]

    def _living_on(self, node: str, for_seconds: float = 0.0) -> frozenset[str]:
        return frozenset(pod.uid for pod in self._pods.on(node, for_seconds) if pod.lives)

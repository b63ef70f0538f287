"""Which Pods are on which Node, and since when, as far as the Pods' informer has told. Pure."""

import time
from collections.abc import Callable, Iterator

from scaletest.cluster.nodes.trims import KeptPod


class PodsByNode:
    """Follows the Pods' informer. A Node that has gone may still have Pods."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Node → its Pods by key, and when each was first seen there.
        self._pods_of: dict[str, dict[str, tuple[KeptPod, float]]] = {}

    def __iter__(self) -> Iterator[str]:
        """The Nodes that have Pods."""
        return iter(self._pods_of)

    def note(self, old: KeptPod | None, new: KeptPod | None) -> None:
        since = self._clock()
        if old and old.node:
            pods = self._pods_of[old.node]
            _, known_since = pods.pop(old.key)
            if not pods:
                del self._pods_of[old.node]
            if new and (new.node, new.uid) == (old.node, old.uid):
                since = known_since
        if new and new.node:
            self._pods_of.setdefault(new.node, {})[new.key] = (new, since)

    def on(self, node: str, for_seconds: float = 0.0) -> list[KeptPod]:
        """The Pods that have been on a Node for so long."""
        latest = self._clock() - for_seconds
        return [pod for pod, since in self._pods_of.get(node, {}).values() if since <= latest]

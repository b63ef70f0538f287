"""The scheduler of one cluster: filter by affinity, then the gang's domain or the spread, then least allocated."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import and_, or_

import numpy as np

from bigfleet.core.requirements import NeedProfile, WhenUnsatisfiable
from bigfleet.scheduling.placement import Mask, Nodes
from bigfleet.scheduling.pods import Controller


class Scheduler:
    """Knows the nodes of one cluster, and how many Pods each domain has where a hard spread counts them."""

    def __init__(self, dimensions: Sequence[str]) -> None:
        self.nodes = Nodes(dimensions)
        # By the controllers whose Pods are counted together, and topology key.
        self._spread: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def schedule(self, waiting: Iterable[Controller]) -> Iterator[tuple[Controller, str]]:
        """Place what waits, most important first; each place is told at once, and must be counted at once."""
        hopeless: set[tuple[str, bytes, str]] = set()
        for controller in sorted(waiting, key=lambda one: (-one.pod.profile.priority, one.name)):
            candidates = self.nodes.matching(controller.pod.profile)
            yield from self._try(controller, candidates, hopeless)

    def fill(
        self, waiting: Iterable[Controller], label: str, whole_gangs: bool = False
    ) -> Iterator[tuple[Controller, str]]:
        """Place as a planner would that knows all Pods and nodes.

        A gang begins where the whole of it finds room; small domains and large gangs choose first, then what spreads.
        With a `label`, Pods go only to nodes whose value of it is their kind. With `whole_gangs`, a gang that finds no
        such room waits.
        """

        def turn(one: Controller) -> tuple[int, int, int, bool, str]:
            domains, profile = self._domains_of(one), one.pod.profile
            return -profile.priority, -domains, -one.pending if domains else 0, not hard_spread(profile), one.name

        for controller in sorted(waiting, key=turn):
            candidates = self.nodes.matching(controller.pod.profile)
            if label:
                candidates = candidates & (self.nodes.domains(label) == controller.kind)
            same = controller.pod.profile.same
            if same and not controller.placed:
                vector, members = controller.vector, controller.pending
                domain, room = self.nodes.roomiest_domain(candidates, same.key, vector, members)
                if whole_gangs and room < members:
                    continue
                candidates = candidates & (self.nodes.domains(same.key) == domain)
            yield from self._try(controller, candidates, set())

    def occupy(self, controller: Controller, node: str, count: int) -> None:
        """Count Pods that the caller has placed itself."""
        self.nodes.occupy(node, controller.vector, count)
        self._count(controller, node, count)

    def leave(self, controller: Controller, node: str) -> None:
        """A Pod ends; its place is free."""
        self.nodes.release(node, controller.vector)
        self._count(controller, node, -1)

    def domain(self, node: str, key: str) -> str:
        return str(self.nodes.domains(key)[self.nodes.rows[node]])

    def _try(
        self, controller: Controller, candidates: Mask, hopeless: set[tuple[str, bytes, str]]
    ) -> Iterator[tuple[Controller, str]]:
        """Pods for which an equal one found nothing in this round are not tried again."""
        case = controller.pod.profile.fingerprint, controller.vector.tobytes(), self._case(controller)
        if case in hopeless:
            return
        none = True
        for node in self._places(controller, candidates):
            self._count(controller, node, 1)
            none = False
            yield controller, node
        if none:
            hopeless.add(case)

    def _case(self, controller: Controller) -> str:
        """What besides profile and size decides where a Pod may go."""
        same = controller.pod.profile.same
        if same and controller.placed:
            return self.domain(next(iter(controller.placed)), same.key)
        return controller.counted_with if controller.pod.profile.spread else ""

    def _places(self, controller: Controller, candidates: Mask) -> Iterator[str]:
        profile, pod = controller.pod.profile, controller.vector
        if profile.same:
            key = profile.same.key
            if not controller.placed:
                # The first member goes anywhere; the others must follow, or wait.
                yield from self.nodes.place(pod, 1, candidates)
            if controller.placed and controller.pending:
                domain = self.domain(next(iter(controller.placed)), key)
                yield from self.nodes.place(pod, controller.pending, candidates & (self.nodes.domains(key) == domain))
        elif hard_spread(profile):
            terms = [self._term(controller, candidates, key, skew) for key, skew in hard_spread(profile)]
            for _ in range(controller.pending):
                node = next(iter(self.nodes.place(pod, 1, reduce(and_, (term() for term in terms)))), None)
                if node is None:
                    return
                yield node
        else:
            yield from self.nodes.place(pod, controller.pending, candidates)

    def _term(self, controller: Controller, candidates: Mask, key: str, skew: int) -> Callable[[], Mask]:
        """Tells, again and again, which candidates may take one more Pod without breaking one hard spread."""
        domains, counts = self.nodes.domains(key), self._spread[controller.counted_with, key]
        inside = {value: candidates & (domains == value) for value in sorted(set(domains[candidates]) - {""})}

        def allowed() -> Mask:
            least = min((counts[value] for value in inside), default=0)
            open_ones = (mask for value, mask in inside.items() if counts[value] + 1 - least <= skew)
            return reduce(or_, open_ones, np.zeros_like(candidates))

        return allowed

    def _domains_of(self, controller: Controller) -> int:
        """How many domains a gang could be in; 0 for what is no gang."""
        same = controller.pod.profile.same
        return len(set(self.nodes.domains(same.key)) - {""}) if same else 0

    def _count(self, controller: Controller, node: str, change: int) -> None:
        for key, _ in hard_spread(controller.pod.profile):
            self._spread[controller.counted_with, key][self.domain(node, key)] += change


def hard_spread(profile: NeedProfile) -> list[tuple[str, int]]:
    """(topology key, skew) of each spread that must hold."""
    return [(s.topology_key, s.max_skew) for s in profile.spread if s.when is WhenUnsatisfiable.DO_NOT_SCHEDULE]

"""What a Pod may ask of Nodes, alone and together with others, and whether Nodes could grant it to all of them.

Every answer is a necessary condition: it does not look at which Pod is where, and adds the Nodes of a domain up. What
fails here no scheduler could place; a Pod that waits because others took its room is no finding.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scaletest.cluster.witness.amounts import amounts_of
from scaletest.cluster.workloads.manifests import counted_by_spread
from scaletest.model.demand.draw import Workload
from scaletest.model.labels import INSTANCE_TYPE_KEY, ZONE_KEY

# The room for Pods that ask for nothing.
_ENDLESS = 1_000_000

# Label → the values of which a Node must have one.
Allowed = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Place:
    """All of a Node that decides whether a Pod could ever be there: values of the labels asked for, and its size."""

    labels: tuple[tuple[str, str], ...]
    allocatable: tuple[tuple[str, int], ...]

    def is_allowed(self, allowed: Allowed) -> bool:
        labels = dict(self.labels)
        return all(labels.get(key) in values for key, values in allowed)


@dataclass(frozen=True)
class PlaceNeed:
    """What a Pod asks of its Node; workloads that ask for the same are looked up together."""

    allowed: Allowed
    resources: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, workload: Workload) -> "PlaceNeed":
        allowed = {INSTANCE_TYPE_KEY: workload.archetype.instance_types, ZONE_KEY: workload.archetype.zones}
        allowed |= {key: (value,) for key, value in workload.node_labels.items()}
        return cls(
            tuple((key, tuple(sorted(values))) for key, values in sorted(allowed.items())),
            tuple(sorted(amounts_of(workload.size.resources).items())),
        )

    def fits(self, place: Place) -> bool:
        offered = dict(place.allocatable)
        return place.is_allowed(self.allowed) and all(offered.get(name, 0) >= milli for name, milli in self.resources)


def is_within(narrow: Allowed, wide: Allowed) -> bool:
    """Whether every Node that the first allows is one that the second allows."""
    allowed = dict(narrow)
    return all(key in allowed and set(allowed[key]) <= set(values) for key, values in wide)


@dataclass(frozen=True)
class DomainRule:
    """What Pods heed together: each gang in one domain, or all Pods evenly over the domains."""

    key: str
    need: PlaceNeed
    # Largest difference between two domains; 0 is a gang's rule.
    max_skew: int = 0
    # The archetype or workload whose Pods a spread counts; all gangs that need the same compete for domains.
    counted: str = ""

    def holds(self, sizes: Sequence[int], rooms: Iterable[int]) -> bool:
        """Whether domains with so much room, in Pods, can hold the workloads of these sizes."""
        return spread_fits(sum(sizes), rooms, self.max_skew) if self.max_skew else gangs_fit(sizes, rooms)


def rule_of(workload: Workload) -> DomainRule | None:
    """Of a gang or a hard spread; None for Pods that each go their own way."""
    archetype = workload.archetype
    if archetype.gang:
        return DomainRule(archetype.gang.topology_key, PlaceNeed.of(workload))
    spread = archetype.spread
    if spread is None or not spread.is_hard or not workload.has_spread:
        return None
    (counted,) = counted_by_spread(workload).values()
    return DomainRule(spread.topology_key, PlaceNeed.of(workload), spread.max_skew, counted)


def rooms_by_domain(key: str, need: PlaceNeed, places: Mapping[Place, int]) -> list[int]:
    """For how many Pods the Nodes of each domain have room, all taken as one: domains without any are left out."""
    offered: dict[str, dict[str, int]] = {}
    for place, count in places.items():
        domain = dict(place.labels).get(key)
        if domain is not None and need.fits(place):
            sums = offered.setdefault(domain, {})
            for name, milli in place.allocatable:
                sums[name] = sums.get(name, 0) + count * milli
    return [
        min((sums.get(name, 0) // milli for name, milli in need.resources if milli), default=_ENDLESS)
        for sums in offered.values()
    ]


def gangs_fit(sizes: Sequence[int], rooms: Iterable[int]) -> bool:
    """Gangs of at least a size need a domain each with room for that; several may share a large one."""
    rooms = list(rooms)
    return all(
        sum(size >= least for size in sizes) <= sum(room // least for room in rooms) for least in set(sizes) if least
    )


def spread_fits(count: int, rooms: Iterable[int], max_skew: int) -> bool:
    """The domain with the least room bounds how much of the others can be used."""
    rooms = list(rooms)
    return count <= sum(min(room, min(rooms) + max_skew) for room in rooms)

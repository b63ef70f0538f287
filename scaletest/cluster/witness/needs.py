"""What one Pod of a drawn workload needs, by the draw alone."""

from dataclasses import dataclass

from scaletest.cluster.witness.amounts import Amounts, amounts_of
from scaletest.model.demand.draw import Workload

# (resource, priority class, kind): what demand is told apart by.
Combination = tuple[str, str, str]

# The brackets of the shard's own figures; copied, because a witness does not ask the one it watches.
_PRIORITY_CLASSES = ((1_000_000, "critical"), (1_000, "service"), (100, "batch"))


@dataclass(frozen=True)
class PodNeed:
    """One Pod's share of the demand."""

    resources: Amounts
    priority_class: str
    kind: str

    @property
    def combinations(self) -> dict[Combination, int]:
        """Its amounts, in milli-units, by what demand is told apart by."""
        return {(name, self.priority_class, self.kind): milli for name, milli in self.resources.items()}


def need_of(workload: Workload) -> PodNeed:
    return PodNeed(amounts_of(workload.size.resources), priority_class_of(workload.priority), kind_of(workload))


def priority_class_of(priority: int) -> str:
    return next((name for least, name in _PRIORITY_CLASSES if priority >= least), "other")


def kind_of(workload: Workload) -> str:
    archetype = workload.archetype
    if archetype.gang:
        return "gang"
    hard = archetype.spread is not None and archetype.spread.is_hard and workload.has_spread
    return "spread" if hard else "plain"

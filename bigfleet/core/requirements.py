"""What a need asks of each machine, and whether a machine has it (docs/reference/engine.md#matching)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

INSTANCE_TYPE_KEY = "node.kubernetes.io/instance-type"
ZONE_KEY = "topology.kubernetes.io/zone"
RACK_KEY = "topology.bigfleet/rack"


class RequirementOperator(IntEnum):
    """Numbers are the wire's and the fingerprint's."""

    UNSPECIFIED = 0
    IN = 1
    NOT_IN = 2
    EXISTS = 3
    DOES_NOT_EXIST = 4
    SAME = 5  # every machine of the need shares one value of the key


class WhenUnsatisfiable(IntEnum):
    UNSPECIFIED = 0
    DO_NOT_SCHEDULE = 1
    SCHEDULE_ANYWAY = 2


OPERATOR_NAMES = {
    "In": RequirementOperator.IN,
    "NotIn": RequirementOperator.NOT_IN,
    "Exists": RequirementOperator.EXISTS,
    "DoesNotExist": RequirementOperator.DOES_NOT_EXIST,
}


@dataclass(frozen=True, order=True)
class Requirement:
    """One constraint on a machine's attribute. Values are kept sorted."""

    key: str
    operator: RequirementOperator
    values: tuple[str, ...] = ()

    def matches(self, attribute: Callable[[str], str | None]) -> bool:
        """Whether a machine satisfies this, given a lookup of its attributes."""
        value = attribute(self.key)
        match self.operator:
            case RequirementOperator.IN:
                return value is not None and value in self.values
            case RequirementOperator.NOT_IN:
                return value is None or value not in self.values
            case RequirementOperator.EXISTS:
                return value is not None
            case RequirementOperator.DOES_NOT_EXIST:
                return value is None
            case RequirementOperator.SAME:
                return value is not None and (not self.values or value in self.values)
            case _:
                return False


@dataclass(frozen=True, order=True)
class Spread:
    """A topology spread constraint."""

    topology_key: str
    max_skew: int
    when: WhenUnsatisfiable


@dataclass(frozen=True)
class NeedProfile:
    """The kind of demand: what aggregates together. Resources are not part of it (BF-0027)."""

    requirements: tuple[Requirement, ...]
    spread: tuple[Spread, ...]
    priority: int
    interruption_bucket: int
    reclamation_bucket: int

    @classmethod
    def canonical(
        cls,
        requirements: Iterable[Requirement],
        spread: Iterable[Spread],
        priority: int,
        interruption_bucket: int,
        reclamation_bucket: int,
    ) -> "NeedProfile":
        """A profile whose parts are sorted, so that equal demands have equal fingerprints."""
        return cls(
            tuple(sorted({Requirement(r.key, r.operator, tuple(sorted(r.values))) for r in requirements})),
            tuple(sorted(spread)),
            priority,
            interruption_bucket,
            reclamation_bucket,
        )

    @cached_property
    def fingerprint(self) -> str:
        """The wire's identity of this profile (docs/reference/engine.md#fingerprint)."""
        reqs = ";".join(f"{r.key}:{int(r.operator)}:{','.join(r.values)}" for r in self.requirements)
        spread = ";".join(f"{s.topology_key}:{s.max_skew}:{int(s.when)}" for s in self.spread)
        return (
            f"p={self.priority}|ipb={self.interruption_bucket}|rpb={self.reclamation_bucket}|reqs={reqs}|spr={spread}"
        )

    @cached_property
    def same(self) -> Requirement | None:
        """The requirement that binds a gang to one domain, if there is one (at most one in v1)."""
        return next((r for r in self.requirements if r.operator is RequirementOperator.SAME), None)

    @cached_property
    def pinned_instance_types(self) -> frozenset[str] | None:
        """The instance types that an In requirement names; None if nothing, or anything but In, speaks of the type."""
        on_type = [r for r in self.requirements if r.key == INSTANCE_TYPE_KEY]
        if not on_type or any(r.operator is not RequirementOperator.IN for r in on_type):
            return None
        return frozenset.intersection(*(frozenset(r.values) for r in on_type))

    def without_same(self) -> "NeedProfile":
        """The profile of a gang whose members need not be held together. Values that Same allows stay, as In."""
        rest = (
            Requirement(r.key, RequirementOperator.IN, r.values) if r.operator is RequirementOperator.SAME else r
            for r in self.requirements
            if r.operator is not RequirementOperator.SAME or r.values
        )
        return NeedProfile.canonical(
            rest, self.spread, self.priority, self.interruption_bucket, self.reclamation_bucket
        )

    def matches(self, attribute: Callable[[str], str | None]) -> bool:
        return all(requirement.matches(attribute) for requirement in self.requirements)

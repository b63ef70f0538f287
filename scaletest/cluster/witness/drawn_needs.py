"""Rows of demand: those that a draw must lead to, and those that a shard says it holds, in one form.

docs/reference/engine.md#from-pod-to-need has the rules. They are applied here without the code that is to be checked.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import ceil

from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed
from bigfleet.api.v1alpha1.shardread_pb2 import NeedView
from scaletest.cluster.witness.amounts import Amounts, amounts_of
from scaletest.model.demand.draw import Workload
from scaletest.model.labels import INSTANCE_TYPE_KEY, ZONE_KEY

# The wire's numbers.
_IN, _SAME = 1, 5
_DO_NOT_SCHEDULE = 1
_ZERO_DOLLARS, _HALF_A_DOLLAR, _ONE_DOLLAR, _PINNED = 1, 2, 3, 27

# (key, operator, values) and (key, skew, what if it cannot be).
Requirements = tuple[tuple[str, int, tuple[str, ...]], ...]
Spread = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class DrawnProfile:
    """All that the Pods of a row have in common; each field is compared."""

    requirements: Requirements
    spread: Spread
    priority: int
    interruption_penalty: int
    reclamation_penalty: int

    def differences(self, other: "DrawnProfile") -> tuple[str, ...]:
        """The fields in which they differ."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != getattr(other, one.name))

    @cached_property
    def is_gang(self) -> bool:
        return any(operator == _SAME for _, operator, _ in self.requirements)

    @cached_property
    def folded(self) -> "DrawnProfile":
        """What a gang asks for if it fits on one machine (docs/reference/engine.md#folding)."""
        return replace(self, requirements=tuple(one for one in self.requirements if one[1] != _SAME))

    @cached_property
    def fingerprint(self) -> str:
        """docs/reference/engine.md#fingerprint."""
        asked = ";".join(f"{key}:{operator}:{','.join(values)}" for key, operator, values in self.requirements)
        spread = ";".join(f"{key}:{skew}:{when}" for key, skew, when in self.spread)
        penalties = f"ipb={self.interruption_penalty}|rpb={self.reclamation_penalty}"
        return f"p={self.priority}|{penalties}|reqs={asked}|spr={spread}"


PROFILE_FIELDS = tuple(one.name for one in fields(DrawnProfile))


@dataclass(frozen=True)
class HeldNeed:
    """A row as a shard tells it. Two gangs have different groups; a group means nothing else."""

    profile: DrawnProfile
    group: str
    aggregate: Amounts
    # Of the largest Pod, resource by resource.
    min_unit: Amounts
    # What is told of its machines does not go together: it is met and lacks something, or is met by none.
    contradicts_itself: bool = False


@dataclass(frozen=True)
class ExpectedNeed:
    """A row that there must be while Pods of these workloads live: one gang, or all workloads of one profile."""

    profile: DrawnProfile
    group: str
    # (workload, what each of its Pods asks for).
    members: tuple[tuple[str, Amounts], ...]


def profile_of(workload: Workload) -> DrawnProfile:
    archetype = workload.archetype
    asked = [(INSTANCE_TYPE_KEY, _IN, archetype.instance_types), (ZONE_KEY, _IN, archetype.zones)]
    asked += [(key, _IN, (value,)) for key, value in workload.node_labels.items()]
    if archetype.gang:
        asked.append((archetype.gang.topology_key, _SAME, ()))
    spread = archetype.spread
    # A mere wish is no part of a need.
    is_bound = spread is not None and spread.is_hard and workload.has_spread
    return DrawnProfile(
        requirements=_sorted(asked),
        spread=((spread.topology_key, spread.max_skew, _DO_NOT_SCHEDULE),) if spread and is_bound else (),
        priority=workload.priority,
        interruption_penalty=bucket_of(archetype.interruption_penalty),
        reclamation_penalty=bucket_of(archetype.reclamation_penalty),
    )


def expected_needs(workloads: Mapping[str, Workload]) -> list[ExpectedNeed]:
    """The rows that all workloads of a course would lead to."""
    members: dict[tuple[DrawnProfile, str], list[tuple[str, Amounts]]] = {}
    for name, workload in workloads.items():
        row = members.setdefault((profile_of(workload), workload.group), [])
        row.append((name, amounts_of(workload.size.resources)))
    return [ExpectedNeed(profile, group, tuple(row)) for (profile, group), row in members.items()]


def held_need(message: CapacityNeed) -> HeldNeed:
    """Raises ValueError for what is no quantity."""
    profile = DrawnProfile(
        requirements=_sorted((one.key, int(one.operator), one.values) for one in message.requirements),
        spread=tuple(sorted((one.topology_key, one.max_skew, int(one.when_unsatisfiable)) for one in message.spread)),
        priority=message.priority,
        interruption_penalty=int(message.interruption_penalty_bucket),
        reclamation_penalty=int(message.reclamation_penalty_bucket),
    )
    return HeldNeed(profile, message.group, amounts_of(message.aggregate_resources), amounts_of(message.min_unit))


def held_view(message: NeedView) -> HeldNeed:
    """The same with what the shard says of the machines that serve it."""
    need = held_need(message.need)
    lacks = any(amounts_of(message.residual_deficit.resources).values())
    machines = message.claimed_machine_count + message.bootstrap_count + message.provision_count
    met_by_none = message.satisfied and any(need.aggregate.values()) and not machines
    return replace(need, contradicts_itself=message.satisfied == lacks or met_by_none)


def checksum(rows: Iterable[tuple[ExpectedNeed, Amounts]]) -> int:
    """Of needs with their min_units: `bigfleet_operator_sent_needs_checksum` if an operator sent these rows."""
    return sum(zlib.crc32(_row_text(need, unit).encode()) for need, unit in rows)


def _row_text(need: ExpectedNeed, unit: Amounts) -> str:
    amounts = ",".join(f"{name}={unit[name]}" for name in sorted(unit))
    return f"{need.profile.fingerprint}|gang={bool(need.group):d}|min={amounts}"


def bucket_of(dollars: float) -> int:
    """The wire's number for an amount, rounded up to $0, $0.50 or a power of two."""
    if dollars <= 0:
        return _ZERO_DOLLARS
    if dollars <= 0.5:
        return _HALF_A_DOLLAR
    return min(_PINNED, _ONE_DOLLAR + (ceil(dollars) - 1).bit_length())


def _sorted(asked: Iterable[tuple[str, int, Iterable[str]]]) -> Requirements:
    return tuple(sorted((key, operator, tuple(sorted(values))) for key, operator, values in asked))

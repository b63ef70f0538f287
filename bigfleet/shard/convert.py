"""Between the wire's messages and the core's types. Bad demand is refused whole, bad metadata skipped."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

import structlog

from bigfleet.api.v1alpha1 import capacity_pb2, coordinator_pb2, provider_pb2, shard_pb2, shardread_pb2
from bigfleet.core import penalty
from bigfleet.core.machines import UNASSIGNED, Assignment, CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.quantity import QuantityError
from bigfleet.core.requirements import (
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    NeedProfile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.core.vectors import ReadVector, Vector, add, format_vector, largest, parse_vector
from bigfleet.engine import Action, ActionKind, CapacityHint, NeedView, Shortfall
from bigfleet.errors import BigFleetError
from bigfleet.shard import message_limits as limits
from bigfleet.shard.notices import Notice

log = structlog.get_logger()

_T = TypeVar("_T")

METADATA_PREFIX = "bigfleet.lucy.sh/"
_PRIORITY = METADATA_PREFIX + "assigned-priority"
_INTERRUPTION = METADATA_PREFIX + "assigned-interruption-penalty-dollars"
_RECLAMATION = METADATA_PREFIX + "assigned-reclamation-penalty-dollars"
_FINGERPRINT = METADATA_PREFIX + "assigned-need-fingerprint"
_GROUP = METADATA_PREFIX + "assigned-group"

# States in which the provider echoes the binding and its metadata.
ASSIGNED = (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING)


_NONE: Mapping[bytes, Need] = MappingProxyType({})


class BadRollup(BigFleetError):
    """A roll-up that can't be understood; nothing of it may be used."""


class BadMachine(BigFleetError):
    """A machine that can't be understood; what was known of it stays."""


# --- demand in ---------------------------------------------------------------------------------------------------


def needs_from_wire(cluster: str, rows: Sequence[bytes], known: Mapping[bytes, Need] = _NONE) -> list[Need]:
    """One need for each row of the session's cluster; rows that are `known` are not read again.

    The roll-up's own cluster id is ignored: a session speaks for one cluster.
    """
    if len(rows) > limits.MAX_ROWS:
        raise BadRollup(f"more than {limits.MAX_ROWS} needs")
    needs = []
    for number, row in enumerate(rows):
        need = known.get(row)
        if need is None:
            try:
                need = _need(cluster, capacity_pb2.CapacityNeed.FromString(row))
            except (ValueError, QuantityError) as error:
                raise BadRollup(f"needs[{number}]: {error}") from error
        needs.append(need)
    return needs


def merged(needs: Collection[Need]) -> list[Need]:
    """Rows of one profile and gang are one need."""
    distinct = {(need.profile.fingerprint, need.group): need for need in needs}
    if len(distinct) == len(needs):
        return list(needs)
    distinct.clear()
    for need in needs:
        key = need.profile.fingerprint, need.group
        twin = distinct.get(key)
        if twin:
            aggregate, min_unit = add(twin.aggregate, need.aggregate), largest(twin.min_unit, need.min_unit)
            need = replace(twin, aggregate=aggregate, min_unit=min_unit)
        distinct[key] = need
    return list(distinct.values())


def _need(cluster: str, message: capacity_pb2.CapacityNeed) -> Need:
    # As bytes: to read their fields takes longer than all else, and only a profile that is new must be read.
    profile = _profile(
        tuple([r.SerializeToString() for r in message.requirements]),
        tuple([s.SerializeToString() for s in message.spread]),
        message.priority,
        message.interruption_penalty_bucket,
        message.reclamation_penalty_bucket,
    )
    if len(message.group) > limits.MAX_GROUP:
        raise ValueError(f"group has {len(message.group)} characters, at most {limits.MAX_GROUP} are allowed")
    aggregate = _amounts("aggregate_resources", message.aggregate_resources)
    return Need(cluster, profile, aggregate, _amounts("min_unit", message.min_unit), message.group)


@lru_cache(maxsize=65536)
def _profile(
    requirements: tuple[bytes, ...],
    spread: tuple[bytes, ...],
    priority: int,
    interruption_bucket: int,
    reclamation_bucket: int,
) -> NeedProfile:
    for field, bucket in (("interruption", interruption_bucket), ("reclamation", reclamation_bucket)):
        if bucket not in penalty.ALL_BUCKETS:
            raise ValueError(f"{field}_penalty_bucket {bucket} is not in 0..{penalty.PINNED}")
    asked = [_requirement(capacity_pb2.NodeSelectorRequirement.FromString(data)) for data in requirements]
    terms = [_spread(capacity_pb2.TopologySpread.FromString(data)) for data in spread]
    _check_sizes(asked, terms)
    return NeedProfile.canonical(asked, terms, priority, interruption_bucket, reclamation_bucket)


def _requirement(message: capacity_pb2.NodeSelectorRequirement) -> Requirement:
    return Requirement(message.key, _operator(message.operator), tuple(message.values))


def _spread(message: capacity_pb2.TopologySpread) -> Spread:
    return Spread(message.topology_key, message.max_skew, WhenUnsatisfiable(message.when_unsatisfiable))


def _check_sizes(requirements: list[Requirement], spread: list[Spread]) -> None:
    limits.check_count("requirements", len(requirements), limits.MAX_REQUIREMENTS)
    limits.check_count("values", sum(len(one.values) for one in requirements), limits.MAX_VALUES)
    limits.check_count("spread terms", len(spread), limits.MAX_SPREAD)
    for index, one in enumerate(requirements):
        limits.check_selector(f"requirements[{index}]", one.key, one.values)
    for index, term in enumerate(spread):
        limits.check_selector(f"spread[{index}]", term.topology_key, key_field="topology_key")
        if term.max_skew < 1:
            raise ValueError(f"max_skew {term.max_skew} is below 1")


def _operator(number: int) -> RequirementOperator:
    try:
        operator = RequirementOperator(number)
    except ValueError:
        raise ValueError(f"requirement operator {number} is unknown") from None
    if operator is RequirementOperator.UNSPECIFIED:
        raise ValueError("a requirement has no operator")
    return operator


def _amounts(field: str, quantities: Mapping[str, str]) -> Vector:
    limits.check_count(f"resources in {field}", len(quantities), limits.MAX_RESOURCES)
    vector, negative = _asked(tuple(quantities.items()))
    if negative is not None:
        raise ValueError(f"{field}[{negative!r}] is negative")
    return vector


@lru_cache(maxsize=65536)
def _asked(quantities: tuple[tuple[str, str], ...]) -> tuple[Vector, str | None]:
    """A vector, and the first dimension of which it has less than nothing. Rows that ask for the same share it."""
    for name, _ in quantities:
        limits.check_resource(name)
    vector = parse_vector(dict(quantities))
    return vector, next((name for name, milli in vector.items() if milli < 0), None)


# --- machines in -------------------------------------------------------------------------------------------------


# Machines of one kind share their vector and labels: a fleet has few kinds and many machines. Never mutate them.
@lru_cache(maxsize=65536)
def _vector(quantities: tuple[tuple[str, str], ...]) -> Vector:
    return parse_vector(dict(quantities))


@lru_cache(maxsize=65536)
def _labels(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(labels)


def machine_from_wire(message: provider_pb2.Machine) -> Machine:
    """The machine as the provider describes it, with the assignment it echoes."""
    resources = message.allocatable if message.HasField("allocatable") else message.resources
    try:
        state = MachineState(message.state)
        echoed = assignment_from_metadata(message.id, message.shard_metadata) if state in ASSIGNED else UNASSIGNED
        return Machine(
            id=message.id,
            state=state,
            instance_type=message.instance_type,
            zone=message.zone,
            capacity_type=CapacityType(message.capacity_type),
            price_per_hour=message.price_per_hour,
            interruption_probability=message.interruption_probability,
            allocatable=_vector(tuple(resources.resources.items())),
            labels=_labels(tuple(message.labels.items())),
            host=message.host.ref,
            cluster=message.cluster,
            last_error=message.last_error,
            assignment=echoed,
        )
    except (ValueError, QuantityError) as error:
        raise BadMachine(f"machine {message.id!r}: {error}") from error


def assignment_from_metadata(machine_id: str, metadata: Mapping[str, str]) -> Assignment:
    """What the shard once wrote. Absent keys keep their default, unknown ones are ignored, bad values are skipped."""
    return Assignment(
        priority=_number(machine_id, metadata, _PRIORITY, int, 0),
        interruption_dollars=_number(machine_id, metadata, _INTERRUPTION, _dollars, 0.0),
        reclamation_dollars=_number(machine_id, metadata, _RECLAMATION, _dollars, 0.0),
        fingerprint=metadata.get(_FINGERPRINT, ""),
        group=metadata.get(_GROUP, ""),
    )


def assignment_for(profile: NeedProfile, group: str) -> Assignment:
    return Assignment(
        priority=profile.priority,
        interruption_dollars=penalty.upper_bound(profile.interruption_bucket),
        reclamation_dollars=penalty.upper_bound(profile.reclamation_bucket),
        fingerprint=profile.fingerprint,
        group=group,
    )


def binding_of(action: Action, machine: Machine) -> tuple[str, Assignment]:
    """The machine's cluster and assignment during the action. A Creating machine has no cluster, only its demand."""
    match action.kind:
        case ActionKind.BOOTSTRAP if action.profile:
            return action.cluster, assignment_for(action.profile, action.group)
        case ActionKind.PROVISION if action.profile:
            return "", Assignment(fingerprint=action.profile.fingerprint, group=action.group)
        case ActionKind.PREEMPT | ActionKind.RECLAIM:
            return machine.cluster, machine.assignment
        case _:
            return "", UNASSIGNED


def metadata_from_assignment(assignment: Assignment) -> dict[str, str]:
    return {
        _PRIORITY: str(assignment.priority),
        _INTERRUPTION: _format_dollars(assignment.interruption_dollars),
        _RECLAMATION: _format_dollars(assignment.reclamation_dollars),
        _FINGERPRINT: assignment.fingerprint,
        _GROUP: assignment.group,
    }


def _number(machine_id: str, metadata: Mapping[str, str], key: str, parse: Callable[[str], _T], default: _T) -> _T:
    text = metadata.get(key)
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError:
        log.warning("metadata skipped", machine=machine_id, key=key, value=text[:40])
        return default


def _dollars(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise ValueError(f"{text!r} is not an amount of dollars")
    return value


def _format_dollars(dollars: float) -> str:
    """The shortest spelling; infinity as `+Inf`, which every reader of this metadata understands."""
    return "+Inf" if math.isinf(dollars) else repr(dollars).removesuffix(".0")


# --- out ---------------------------------------------------------------------------------------------------------


def node_state(notice: Notice) -> shard_pb2.NodeStateUpdate:
    machine = notice.machine
    labels = dict(machine.labels)
    if machine.instance_type:
        labels[INSTANCE_TYPE_KEY] = machine.instance_type
    if machine.zone:
        labels[ZONE_KEY] = machine.zone
    return shard_pb2.NodeStateUpdate(
        supersedes_key=f"node:{machine.id}",
        machine_id=machine.id,
        cluster_id=notice.cluster,
        state=provider_pb2.MachineState.Name(machine.state),
        node_name=notice.node_name,
        provider_id=machine.host,
        last_error=machine.last_error,
        labels=labels,
        resources=resources_to_wire(machine.allocatable),
        removed=notice.removed,
    )


def available_capacity(hint: CapacityHint) -> shard_pb2.AvailableCapacityUpdate:
    update = shard_pb2.AvailableCapacityUpdate
    confidence = update.HIGH if hint.idle else update.MEDIUM if hint.speculative else update.NONE
    return update(
        supersedes_key=f"available:{hint.profile.fingerprint}",
        requirements=requirements_to_wire(hint.profile.requirements),
        resources=resources_to_wire(hint.resources),
        available_count=hint.available,
        confidence=confidence,
        cost_per_hour=hint.cost_per_hour,
    )


def requirements_to_wire(requirements: Iterable[Requirement]) -> list[capacity_pb2.NodeSelectorRequirement]:
    return [
        capacity_pb2.NodeSelectorRequirement(
            key=r.key, operator=capacity_pb2.NodeSelectorRequirement.Operator.Name(r.operator), values=r.values
        )
        for r in requirements
    ]


def resources_to_wire(vector: ReadVector) -> provider_pb2.Resources:
    return provider_pb2.Resources(resources=format_vector(vector))


def shortfall_to_wire(shortfall: Shortfall) -> coordinator_pb2.Shortfall:
    return coordinator_pb2.Shortfall(
        requirements=requirements_to_wire(shortfall.profile.requirements),
        deficit=resources_to_wire(shortfall.deficit),
        priority=shortfall.profile.priority,
        age_cycles=shortfall.age_cycles,
        interruption_penalty_bucket=capacity_pb2.PenaltyBucket.Name(shortfall.profile.interruption_bucket),
    )


def need_to_wire(need: Need) -> capacity_pb2.CapacityNeed:
    profile = need.profile
    return capacity_pb2.CapacityNeed(
        requirements=requirements_to_wire(profile.requirements),
        aggregate_resources=format_vector(need.aggregate),
        priority=profile.priority,
        spread=[
            capacity_pb2.TopologySpread(
                topology_key=s.topology_key,
                max_skew=s.max_skew,
                when_unsatisfiable=capacity_pb2.TopologySpread.WhenUnsatisfiable.Name(s.when),
            )
            for s in profile.spread
        ],
        interruption_penalty_bucket=capacity_pb2.PenaltyBucket.Name(profile.interruption_bucket),
        reclamation_penalty_bucket=capacity_pb2.PenaltyBucket.Name(profile.reclamation_bucket),
        min_unit=format_vector(need.min_unit),
        group=need.group,
    )


def need_view_to_wire(view: NeedView) -> shardread_pb2.NeedView:
    return shardread_pb2.NeedView(
        need=need_to_wire(view.need),
        cluster_id=view.need.cluster,
        arrival_unix_nanos=int(view.need.arrival * 1e9),
        profile_fingerprint=view.need.profile.fingerprint,
        satisfied=view.satisfied,
        residual_deficit=resources_to_wire(view.residual),
        claimed_machine_count=view.claimed,
        bootstrap_count=view.bootstraps,
        provision_count=view.provisions,
        same_domain=view.same_domain,
        same_satisfiable=view.same_satisfiable,
        acquisition_parked=view.parked,
        parked_age_cycles=view.parked_age_cycles,
        age_cycles_unmet=view.age_cycles_unmet,
        unmet_reason=shardread_pb2.UnmetReason.Name(view.reason),
    )

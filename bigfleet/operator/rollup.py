"""From CapacityRequests to the roll-up: canonical profiles, gangs, aggregation. Pure.

docs/reference/engine.md#from-pod-to-need has the rules.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.core import penalty
from bigfleet.core.labels import selector_problem
from bigfleet.core.quantity import QuantityError, parse_milli
from bigfleet.core.requirements import (
    OPERATOR_NAMES,
    NeedProfile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.core.vectors import Vector, format_vector
from bigfleet.errors import BigFleetError

_ENCODER = msgspec.json.Encoder(order="deterministic")
# (fingerprint, group): what adds up to one need.
RowKey = tuple[str, str]
# A vector that can be counted.
Amounts = tuple[tuple[str, int], ...]


class UnsupportedRequest(BigFleetError, ValueError):
    """A CapacityRequest that cannot be said on the wire; names the field."""


@dataclass(frozen=True)
class Contribution:
    """What one CapacityRequest adds to the demand."""

    profile: NeedProfile
    group: str
    amounts: Amounts
    key: RowKey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.profile.fingerprint, self.group))


def contribution_of(spec: Mapping[str, Any]) -> Contribution:
    """Read a CapacityRequest's spec; raises UnsupportedRequest."""
    return contribution_in(_ENCODER.encode(spec))


# Replicas of one workload have equal specs, which the apiserver writes with sorted keys: a cluster has far fewer texts
# than requests.
@lru_cache(maxsize=8192)
def contribution_in(spec_json: bytes) -> Contribution:
    """Read a CapacityRequest's spec as the apiserver wrote it; raises UnsupportedRequest."""
    spec = msgspec.json.decode(spec_json)
    requirements = [_requirement(index, item) for index, item in enumerate(spec.get("requirements") or [])]
    group = ""
    colocation = spec.get("coLocation")
    if colocation and colocation.get("topologyKey"):
        _check_selector("coLocation", colocation["topologyKey"], key_field="topologyKey")
        requirements.append(Requirement(colocation["topologyKey"], RequirementOperator.SAME))
        group = group_of(colocation["topologyKey"], colocation.get("labelSelector"))
    spread = [term for term in spec.get("topologySpread") or [] if term["whenUnsatisfiable"] == "DoNotSchedule"]
    for index, term in enumerate(spread):
        _check_selector(f"topologySpread[{index}]", term["topologyKey"], key_field="topologyKey")
    profile = NeedProfile.canonical(
        requirements,
        [Spread(term["topologyKey"], term["maxSkew"], WhenUnsatisfiable.DO_NOT_SCHEDULE) for term in spread],
        spec["priority"],
        _bucket(spec, "interruptionPenalty"),
        _bucket(spec, "reclamationPenalty"),
    )
    return Contribution(profile, group, _amounts(spec["resources"]))


def group_of(topology_key: str, selector: Mapping[str, Any] | None) -> str:
    """The opaque name of a gang: its topology key and its selector in canonical form."""
    return f"{topology_key}\x00{_canonical_selector(selector)}"


def _canonical_selector(selector: Mapping[str, Any] | None) -> str:
    if selector is None:
        return ""
    labels = "".join(f"{key}={value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = sorted(
        (term["key"], term["operator"], ",".join(sorted(term.get("values") or [])))
        for term in selector.get("matchExpressions") or []
    )
    return f"{labels};" + "".join(f"{key} {operator} {values};" for key, operator, values in expressions)


def _requirement(index: int, item: Mapping[str, Any]) -> Requirement:
    operator = OPERATOR_NAMES.get(item["operator"])
    if operator is None:
        raise UnsupportedRequest(f"requirements[{index}] ({item['key']}): operator {item['operator']!r} is unsupported")
    _check_selector(f"requirements[{index}]", item["key"], item.get("values") or ())
    return Requirement(item["key"], operator, tuple(item.get("values") or ()))


def _check_selector(field: str, key: str, values: Sequence[str] = (), key_field: str = "key") -> None:
    """The shard refuses a whole roll-up for one key or value that is no label's."""
    problem = selector_problem(key, values, key_field)
    if problem:
        raise UnsupportedRequest(f"{field}.{problem}")


def _bucket(spec: Mapping[str, Any], name: str) -> int:
    value = spec.get(name)
    return penalty.UNSPECIFIED if value is None else penalty.bucket_of(_milli(name, value) / 1000)


def _amounts(resources: Mapping[str, Any]) -> Amounts:
    amounts = tuple(sorted((name, _milli(f"resources[{name}]", text)) for name, text in resources.items()))
    for name, milli in amounts:
        if milli < 0:
            raise UnsupportedRequest(f"resources[{name}] is negative")
    return amounts


def _milli(name: str, value: object) -> int:
    try:
        return parse_milli(str(value))
    except QuantityError as error:
        raise UnsupportedRequest(f"{name}: {error}") from error


class ClusterDemand:
    """A cluster's demand, kept aggregated while requests come and go, so that a roll-up costs rows, not requests."""

    def __init__(self) -> None:
        self._contributions: dict[str, Contribution] = {}
        self._rows: dict[RowKey, _Row] = {}

    def __len__(self) -> int:
        """Requests, not rows."""
        return len(self._contributions)

    def put(self, request: str, contribution: Contribution | None) -> bool:
        """Set what `request` adds, None to withdraw it. Returns whether the demand changed."""
        before = self._contributions.get(request)
        if before == contribution:
            return False
        if before is not None:
            row = self._rows[before.key]
            row.remove(before.amounts)
            if row.empty:
                del self._rows[before.key]
            del self._contributions[request]
        if contribution is not None:
            self._rows.setdefault(contribution.key, _Row(contribution)).add(contribution.amounts)
            self._contributions[request] = contribution
        return True

    def needs(self) -> list[capacity_pb2.CapacityNeed]:
        """One need per (profile, gang), in a stable order."""
        return [self._rows[key].need() for key in sorted(self._rows)]


def rollup(
    cluster_id: str, needs: list[capacity_pb2.CapacityNeed], timestamp_unix_nanos: int
) -> capacity_pb2.ClusterCapacityNeeds:
    return capacity_pb2.ClusterCapacityNeeds(
        cluster_id=cluster_id, timestamp_unix_nanos=timestamp_unix_nanos, needs=needs
    )


class _Row:
    """Requests of one profile and gang. The wire's form is built again only after a change."""

    def __init__(self, contribution: Contribution) -> None:
        self._profile = contribution.profile
        self._group = contribution.group
        self._counts: Counter[Amounts] = Counter()
        self._need: capacity_pb2.CapacityNeed | None = None

    @property
    def empty(self) -> bool:
        return not self._counts

    def add(self, amounts: Amounts) -> None:
        self._counts[amounts] += 1
        self._need = None

    def remove(self, amounts: Amounts) -> None:
        self._counts[amounts] -= 1
        if not self._counts[amounts]:
            del self._counts[amounts]
        self._need = None

    def need(self) -> capacity_pb2.CapacityNeed:
        if self._need is None:
            self._need = self._build()
        return self._need

    def _build(self) -> capacity_pb2.CapacityNeed:
        aggregate: Vector = {}
        min_unit: Vector = {}
        for amounts, count in self._counts.items():
            for name, milli in amounts:
                aggregate[name] = aggregate.get(name, 0) + milli * count
                min_unit[name] = max(min_unit.get(name, 0), milli)
        need = capacity_pb2.CapacityNeed(
            aggregate_resources=format_vector(aggregate),
            min_unit=format_vector(min_unit),
            priority=self._profile.priority,
            interruption_penalty_bucket=self._profile.interruption_bucket,  # type: ignore[arg-type]
            reclamation_penalty_bucket=self._profile.reclamation_bucket,  # type: ignore[arg-type]
            group=self._group,
        )
        for requirement in self._profile.requirements:
            need.requirements.add(
                key=requirement.key,
                operator=int(requirement.operator),
                values=requirement.values,
            )
        for spread in self._profile.spread:
            need.spread.add(
                topology_key=spread.topology_key,
                max_skew=spread.max_skew,
                when_unsatisfiable=int(spread.when),
            )
        return need

"""Why is my pod pending? A need's row, told in plain sentences."""

import hashlib
from collections.abc import Iterable, Mapping

from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed, NodeSelectorRequirement
from bigfleet.api.v1alpha1.shardread_pb2 import (
    NO_MATCHING_SUPPLY,
    PREEMPTION_EXHAUSTED,
    PRIORITY_STARVED,
    TOPOLOGY_UNSATISFIABLE,
    InspectNeedsHeader,
    NeedView,
)

_NAME_LENGTH = 10
_SAME = NodeSelectorRequirement.SAME
_OPERATORS = {
    NodeSelectorRequirement.IN: "in",
    NodeSelectorRequirement.NOT_IN: "not in",
    NodeSelectorRequirement.EXISTS: "is set",
    NodeSelectorRequirement.DOES_NOT_EXIST: "is not set",
}


def name_of(view: NeedView) -> str:
    """A fingerprint is a whole sentence; this is short, the same for the same demand, and enough to name it by."""
    whole = f"{view.profile_fingerprint}\0{view.need.group}"
    return hashlib.sha256(whole.encode()).hexdigest()[:_NAME_LENGTH]


def explain(view: NeedView) -> list[str]:
    """What the need is, how it stands, why, and what helps."""
    lines = [f"Need {name_of(view)}: {asked_for(view.need)}."]
    if view.satisfied:
        lines += [f"  It is satisfied, by {_count(view.claimed_machine_count, 'machine')}.", *_if_still_pending()]
        return lines
    age = _count(view.age_cycles_unmet, "cycle")
    lines.append(f"  It lacks {amounts(view.residual_deficit.resources)}, for {age} now.")
    lines.append(f"  It holds {_count(view.claimed_machine_count, 'machine')}{_on_the_way(view)}.")
    why, what_helps = _reason(view)
    lines += [f"  Why: {why}.", f"  What helps: {what_helps}."]
    return lines


def lingers(header: InspectNeedsHeader) -> list[str]:
    """What the cluster has too much of, and why it is still there."""
    lines = []
    if header.reclaims_waiting_for_rate:
        lines.append(
            f"{_count(header.reclaims_waiting_for_rate, 'machine')} more than it asks for: "
            "waiting for the reclaim rate (--reclaim-cap-fraction of the cluster in any --cap-window-seconds)."
        )
    if header.reclaims_waiting_for_session:
        lines.append(
            f"{_count(header.reclaims_waiting_for_session, 'machine')} more than it asks for: "
            "waiting for a session of its operator, who must empty them first."
        )
    return lines


def asked_for(need: CapacityNeed) -> str:
    """The demand in words."""
    parts = [f"{amounts(need.aggregate_resources)} in all"]
    if need.min_unit:
        parts.append(f"each machine with at least {amounts(need.min_unit)}")
    parts += [_requirement(one) for one in need.requirements]
    parts += [f"spread over {one.topology_key} with a skew of at most {one.max_skew}" for one in need.spread]
    return f"priority {need.priority}; " + "; ".join(parts)


def amounts(resources: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {amount}" for name, amount in sorted(resources.items())) or "nothing"


def _requirement(one: NodeSelectorRequirement) -> str:
    values = ", ".join(one.values)
    if one.operator == _SAME:
        return f"all machines in one {one.key}" + (f" of {values}" if values else "")
    return f"{one.key} {_OPERATORS.get(one.operator, '?')} {values}".rstrip()


def _on_the_way(view: NeedView) -> str:
    coming = [
        _count(count, f"machine is {doing}", f"machines are {doing}")
        for count, doing in ((view.bootstrap_count, "being configured"), (view.provision_count, "being created"))
        if count
    ]
    return f"; {' and '.join(coming)} for it" if coming else ", and the last cycle found none to add"


def _reason(view: NeedView) -> tuple[str, str]:
    key = next((one.key for one in view.need.requirements if one.operator == _SAME), "domain")
    if view.unmet_reason == NO_MATCHING_SUPPLY:
        return (
            "the shard knows no machine, in any state, that meets these requirements and is as large as one unit",
            "other requirements or smaller Pods; machines of that kind at the provider; or a domain that has them, "
            "assigned to this shard (bigfleetctl list-domain-assignments)",
        )
    if view.unmet_reason == TOPOLOGY_UNSATISFIABLE:
        age = _count(view.parked_age_cycles, "cycle")
        parked = f"; it has been set aside for {age}" if view.acquisition_parked else ""
        chosen = f" ({view.same_domain} was tried)" if view.same_domain else ""
        return (
            f"all its machines must share one {key}, and no {key} has enough of them{chosen}{parked}",
            f"a smaller group, a {key} with more machines, or co-location over a wider topology key",
        )
    if view.unmet_reason == PREEMPTION_EXHAUSTED:
        return (
            "machines were taken from demand of lower priority, and it is still not enough",
            "more machines; the rest of the fleet serves demand that is as important",
        )
    if view.unmet_reason == PRIORITY_STARVED:
        return (
            "machines that fit exist, but all of them serve demand that comes first: of higher priority, or as high "
            "and earlier",
            "more machines, a higher PriorityClass, or patience",
        )
    return "the shard gave no reason", "ask again after its next cycle"


def _if_still_pending() -> Iterable[str]:
    return ["  If a Pod still waits, its machine may not have joined yet: kubectl get upcomingnodes."]


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"

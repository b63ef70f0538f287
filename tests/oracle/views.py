"""Need views: what a cycle made of each need, and why a need is not met (spec/engine.md §2.5)."""

from collections.abc import Iterable

from bigfleet.engine.decisions import NeedView, UnmetReason
from tests.oracle.fill import Fill
from tests.oracle.ledger import ShortfallLedger
from tests.oracle.phase2 import Unresolved


def need_views(fills: Iterable[Fill], unresolved: Iterable[Unresolved], ledger: ShortfallLedger) -> list[NeedView]:
    """§2.5 "Rows ordered priority desc, arrival asc, cluster asc": the order of the fills."""
    exhausted = {entry.fill for entry in unresolved if entry.some_victims}
    return [_view(fill, unmet_reason(fill, fill in exhausted), ledger) for fill in fills]


def _view(fill: Fill, reason: UnmetReason, ledger: ShortfallLedger) -> NeedView:
    """§2.5 "NeedView"; parked_age_cycles is filled, which the reference does not [GAP]."""
    return NeedView(
        need=fill.need,
        satisfied=fill.met,
        residual=fill.missing,
        claimed=len(fill.credited),
        bootstraps=len(fill.bootstraps),
        provisions=len(fill.provisions),
        same_domain=fill.domain or "",
        same_satisfiable=fill.satisfiable,
        parked=fill.parked,
        parked_age_cycles=fill.parked_age_cycles,
        age_cycles_unmet=0 if fill.met else ledger.age(fill.need.profile),
        reason=reason,
    )


def unmet_reason(fill: Fill, preemption_exhausted: bool) -> UnmetReason:
    """§2.5 "Derivation order": satisfied, topology, supply "in any state", preemption, priority."""
    if fill.met:
        return UnmetReason.UNSPECIFIED
    if fill.need.profile.same is not None and (fill.parked or fill.domain is None or not fill.satisfiable):
        return UnmetReason.TOPOLOGY_UNSATISFIABLE
    if not fill.usable:
        return UnmetReason.NO_MATCHING_SUPPLY
    if preemption_exhausted:
        return UnmetReason.PREEMPTION_EXHAUSTED
    return UnmetReason.PRIORITY_STARVED

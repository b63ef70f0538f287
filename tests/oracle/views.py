"""Need views: what a cycle made of each need, and why a need is not met (docs/reference/wire.md#need-views)."""

from collections.abc import Iterable

from bigfleet.engine.decisions import NeedView, UnmetReason
from tests.oracle.fill import Fill
from tests.oracle.ledger import ShortfallLedger
from tests.oracle.phase2 import Unresolved


def need_views(fills: Iterable[Fill], unresolved: Iterable[Unresolved], ledger: ShortfallLedger) -> list[NeedView]:
    """One for each need, in order of precedence (docs/reference/wire.md#need-views)."""
    exhausted = {entry.fill for entry in unresolved if entry.some_victims}
    return [_view(fill, unmet_reason(fill, fill in exhausted), ledger) for fill in fills]


def _view(fill: Fill, reason: UnmetReason, ledger: ShortfallLedger) -> NeedView:
    """A row of the answer (docs/reference/wire.md#need-views)."""
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
    """The first reason that applies (docs/reference/wire.md#need-views)."""
    if fill.met:
        return UnmetReason.UNSPECIFIED
    if fill.need.profile.same is not None and (fill.parked or fill.domain is None or not fill.satisfiable):
        return UnmetReason.TOPOLOGY_UNSATISFIABLE
    if not fill.usable:
        return UnmetReason.NO_MATCHING_SUPPLY
    if preemption_exhausted:
        return UnmetReason.PREEMPTION_EXHAUSTED
    return UnmetReason.PRIORITY_STARVED

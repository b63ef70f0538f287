"""Phase 2: preemption, where a need takes machines from work of strictly lower priority.

See docs/reference/engine.md#preemption.
"""

from dataclasses import dataclass

import numpy as np

from bigfleet.core.victims import victim_score
from bigfleet.engine.columns.fleet import CONFIGURED, Fleet
from bigfleet.engine.columns.growing import Flags, Ints, Longs
from bigfleet.engine.kernels import kernels
from bigfleet.engine.phases.acquisition import Short
from bigfleet.engine.phases.credit import Credits
from bigfleet.engine.phases.parking import Parking

_NO_PRIORITY = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class Preemption:
    """What Phase 2 decided. `deficits` and `some_victims` are by short row."""

    # Configured machines to take, and the short row that takes each.
    victims: Ints
    takers: Ints
    deficits: Longs
    some_victims: Flags
    # By machine row, 1 for victims and for machines whose drain is already under way for a need; empty if none.
    taken: Flags


def preempt(fleet: Fleet, credits: Credits, short: Short, parking: Parking) -> Preemption:
    """Find victims for every row that Phase 1 left short, the most important first."""
    deficits = short.missing.copy()
    some = np.zeros(len(short), np.uint8)
    nobody = np.zeros(0, np.int32)
    may = _may_preempt(fleet, short, parking)
    if not may.any() or not _any_victims(fleet, int(short.priorities[may > 0].max())):
        return Preemption(nobody, nobody, deficits, some, np.zeros(0, np.uint8))
    return _find(fleet, credits, short, may, deficits, some)


def _may_preempt(fleet: Fleet, short: Short, parking: Parking) -> Flags:
    """Parked gangs and gangs without a domain take nothing from others.

    Nor does a gang whose probe finds nothing: it is parked again before it could use what it frees (ADR-6).
    """
    homeless = (fleet.profiles.same_keys[short.profiles] >= 0) & (short.domains < 0)
    may: Flags = ((short.unmet() > 0) & (short.parked == 0) & ~homeless).astype(np.uint8)
    if parking.waits:
        for number in short.hopeless(fleet).tolist():
            cluster, gang = short.gang(number)
            if parking.is_probing(parking.waits.get(cluster, {}).get(gang, 0)):
                may[number] = 0
    return may


def _any_victims(fleet: Fleet, priority: int) -> bool:
    """Whether anything drains, or is Configured for less than this priority."""
    return bool(fleet.index.sizes[fleet.draining]) or any(
        terms[0] < priority and fleet.configured_by_terms[number] > 0 for number, terms in enumerate(fleet.terms)
    )


def _find(fleet: Fleet, credits: Credits, short: Short, may: Flags, deficits: Longs, some: Flags) -> Preemption:
    kinds, profiles, index, terms = fleet.kinds, fleet.profiles, fleet.index, short.terms
    taken = np.zeros(len(fleet.states), np.uint8)
    start = int(index.starts[fleet.draining])
    draining = index.rows[start : start + int(index.sizes[fleet.draining])]
    configured, served = _configured(fleet, credits)
    assigned = np.array([priority for priority, _, _ in fleet.terms], np.int64)
    machines = np.empty(len(draining) + len(configured), np.int32)
    takers = np.empty_like(machines)
    found = 0
    levels, firsts = np.unique(-short.priorities, return_index=True)
    for level, first, last in zip(levels.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(short)], strict=True):
        if not may[first:last].any():
            continue
        ranked = _ranked(fleet, -level, configured)
        candidates = np.concatenate([draining, configured[ranked]])
        found = int(
            kernels().victims(
                first, last, -level, short.profiles, may, short.units, deficits, short.domains, some,
                short.balance_of, short.balances, terms.starts, terms.keys, terms.skews, terms.offsets, terms.sizes,
                candidates, fleet.kind_of[candidates], assigned[fleet.terms_of[candidates]],
                np.concatenate([np.full(len(draining), _NO_PRIORITY), served[ranked]]), taken,
                profiles.matches, kinds.allocatable_of, kinds.allocatable, kinds.attributes, profiles.same_keys,
                machines, takers, found,
            )
        )  # fmt: skip
    machines, takers = machines[:found], takers[:found]
    fresh = index.home[machines] != fleet.draining
    return Preemption(machines[fresh], takers[fresh], deficits, some, taken)


def _configured(fleet: Fleet, credits: Credits) -> tuple[Ints, Longs]:
    """Every Configured machine, and the priority of the need that it serves in this cycle.

    A cluster that has not sent a roll-up since the engine's start loses none (first-roll-up rule, ADR-36): nobody knows
    yet what its machines serve.
    """
    index = fleet.index
    machines = [np.zeros(0, np.int32)]
    priorities = [np.zeros(0, np.int64)]
    for cluster, segment in enumerate(fleet.slabs[CONFIGURED].tolist()):
        known = credits.by_cluster.get(cluster)
        if known is None or segment < 0 or not index.sizes[segment]:
            continue
        start, size = int(index.starts[segment]), int(index.sizes[segment])
        machines.append(index.rows[start : start + size])
        by_row = np.append(known.arrangement.priorities, _NO_PRIORITY)
        priorities.append(by_row[known.holders[:size]])
    return np.concatenate(machines), np.concatenate(priorities)


def _ranked(fleet: Fleet, priority: int, machines: Ints) -> Longs:
    """The machines of lower priority, the best victim first: by score, then id (docs/reference/engine.md#victims)."""
    scores = np.array([-victim_score(priority, *terms) for terms in fleet.terms])
    lower = np.array([terms[0] < priority for terms in fleet.terms], np.bool_)
    terms = fleet.terms_of[machines]
    chosen = np.flatnonzero(lower[terms])
    return chosen[np.lexsort((fleet.ids.labels[machines[chosen]], scores[terms[chosen]]))]

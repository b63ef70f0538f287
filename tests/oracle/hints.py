"""Hints of free capacity for the clusters that demand it (spec/engine.md §3.16)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, Profile
from bigfleet.engine.decisions import CapacityHint
from bigfleet.engine.snapshot import Snapshot

_PricesByType = Mapping[str | None, list[float]]


def capacity_hints(needs: Iterable[Need], snapshot: Snapshot) -> list[CapacityHint]:
    """For each cluster and profile that it demands, what is free at the start of the cycle (spec/engine.md §3.16)."""
    idle = _prices_by_type(snapshot.in_state(MachineState.IDLE))
    speculative = _prices_by_type(snapshot.in_state(MachineState.SPECULATIVE))
    demanded = {(need.cluster, need.profile.fingerprint): need.profile for need in needs}
    offers: dict[str, tuple[int, int, float]] = {}
    hints = []
    for cluster, fingerprint in sorted(demanded):
        profile = demanded[cluster, fingerprint]
        if fingerprint not in offers:
            offers[fingerprint] = _offer(profile, idle, speculative)
        idle_count, speculative_count, cost = offers[fingerprint]
        total = idle_count + speculative_count
        hints.append(CapacityHint(cluster, profile, total, idle_count, speculative_count, cost))
    return hints


def _offer(profile: Profile, idle: _PricesByType, speculative: _PricesByType) -> tuple[int, int, float]:
    """(Idle, Speculative, cheapest Idle price) of the pinned instance types; of all types, at 0, if none is pinned."""
    pinned = profile.pinned_instance_types
    if pinned is None:
        return sum(map(len, idle.values())), sum(map(len, speculative.values())), 0.0
    idle_prices = [price for instance_type in pinned for price in idle.get(instance_type, ())]
    speculative_count = sum(len(speculative.get(instance_type, ())) for instance_type in pinned)
    return len(idle_prices), speculative_count, min(idle_prices, default=0.0)


def _prices_by_type(machines: Iterable[Machine]) -> _PricesByType:
    prices: dict[str | None, list[float]] = defaultdict(list)
    for machine in machines:
        prices[machine.attribute(INSTANCE_TYPE_KEY)].append(machine.price_per_hour)
    return prices

"""Acquisition for one need: which free machines it takes, by its topology (docs/reference/engine.md#acquisition)."""

from collections import defaultdict
from collections.abc import Iterable

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.vectors import covers
from tests.oracle.fill import Claims, Fill, total
from tests.oracle.snapshot import Snapshot
from tests.oracle.spread import acquire_spread, binding_terms


def acquire(fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """By topology: a gang, else a hard spread, else the cheapest machines that are free.

    See docs/reference/engine.md#acquisition.
    """
    same = fill.need.profile.same
    if same is not None:
        acquire_in_one_domain(fill, same.key, snapshot, claims)
    elif binding_terms(fill.need.profile):
        acquire_spread(fill, snapshot, claims)
    else:
        take(claims.free_pool(snapshot, fill), fill, claims)


def take(machines: Iterable[Machine], fill: Fill, claims: Claims) -> None:
    """One after the other until the need is met; what was taken is kept if it never is.

    See docs/reference/engine.md#acquisition.
    """
    for machine in machines:
        if fill.met:
            return
        claims.claim(machine, fill)


def acquire_in_one_domain(fill: Fill, key: str, snapshot: Snapshot, claims: Claims) -> None:
    """Machines of the gang's domain only (docs/reference/engine.md#acquisition)."""
    if fill.domain is None:
        fill.domain = _domain_of_free_machines(fill, key, snapshot, claims)
    take((m for m in claims.free_pool(snapshot, fill) if m.attribute(key) == fill.domain), fill, claims)


def _domain_of_free_machines(fill: Fill, key: str, snapshot: Snapshot, claims: Claims) -> str | None:
    """A domain for a gang that credit found none for (docs/reference/engine.md#acquisition).

    One that covers what is missing, by the price of its first machine; else the one with most machines. Idle machines
    choose if there are any, for that state is tried first.
    """
    by_domain: dict[MachineState, dict[str, list[Machine]]] = defaultdict(lambda: defaultdict(list))
    for machine in claims.free_pool(snapshot, fill):
        value = machine.attribute(key)
        if value is not None:
            by_domain[machine.state][value].append(machine)
    domains = by_domain.get(MachineState.IDLE) or by_domain.get(MachineState.SPECULATIVE)
    if not domains:
        return None

    def rank(value: str) -> tuple[bool, int, float, str]:
        machines = domains[value]
        enough = covers(total(machines), fill.missing)
        return not enough, 0 if enough else -len(machines), machines[0].price_per_hour, value

    return min(domains, key=rank)

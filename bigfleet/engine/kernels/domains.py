"""Gangs: what one domain has for a gang, and which it chooses (docs/reference/engine.md#gangs)."""

from bigfleet.engine.kernels.jit import helper
from bigfleet.engine.kernels.pools import SATURATED


@helper
def score(have, domain, missing, row, by_name, capped):
    """How much of what is missing a domain has: each dimension adds at most 1 if capped (steps 2 to 5)."""
    total = 0.0
    for d in by_name:
        want = missing[row, d]
        if want > 0:
            part = have[domain, d] / want
            total += min(1.0, part) if capped else part
    return total


@helper
def add_capped(totals, domain, allocatable, vector, count):
    """totals[domain] += allocatable[vector] × count, no further than SATURATED."""
    for d in range(totals.shape[1]):
        amount = allocatable[vector, d]
        if abs(float(amount) * float(count)) >= SATURATED:
            amount = SATURATED if amount > 0 else -SATURATED
        else:
            amount = amount * count
        totals[domain, d] = max(-SATURATED, min(SATURATED, totals[domain, d] + amount))


@helper
def settled_domain(domains, count, creditable, own, missing, row, by_name):
    """The domain that the first three steps choose whatever is free; −1 if free machines have a say.

    It covers the gang with what is creditable alone, and no other has as much of it, nor as much of the gang's own.
    """
    chosen, most, most_own, alone = -1, 0.0, 0.0, False
    for i in range(count):
        covered = score(creditable, domains[i], missing, row, by_name, True)
        if covered < most:
            continue
        covered_own = score(own, domains[i], missing, row, by_name, True)
        if covered > most or covered_own > most_own:
            chosen, most, most_own, alone = domains[i], covered, covered_own, True
        elif covered_own == most_own:
            alone = False
    if not alone:
        return -1
    for d in range(missing.shape[1]):
        if missing[row, d] > 0 and creditable[chosen, d] < missing[row, d]:
            return -1
    return chosen


@helper
def best_domain(domains, count, counts, totals, creditable, own, missing, row, by_name, value_ranks):
    """The seven steps of the choice (docs/reference/engine.md#gangs); returns (domain, whether it would satisfy)."""
    chosen, best = -1, (2, 0.0, 0.0, 0.0, 0, 0)
    for i in range(count):
        domain = domains[i]
        satisfies = True
        for d in range(missing.shape[1]):
            if missing[row, d] > 0 and totals[domain, d] < missing[row, d]:
                satisfies = False
        has = score(creditable, domain, missing, row, by_name, True)
        if satisfies:
            rank = (
                0,
                -has,
                -score(own, domain, missing, row, by_name, True),
                score(totals, domain, missing, row, by_name, False),
                -counts[domain],
                int(value_ranks[domain]),
            )
        else:
            capped = score(totals, domain, missing, row, by_name, True)
            rank = (1, -capped, -has, 0.0, -counts[domain], int(value_ranks[domain]))
        if chosen < 0 or rank < best:
            chosen, best = domain, rank
    return chosen, best[0] == 0

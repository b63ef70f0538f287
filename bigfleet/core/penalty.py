"""Penalty buckets: dollars rounded up to powers of two, so that similar demands aggregate.

See docs/reference/engine.md#penalty-buckets.
"""

import math

UNSPECIFIED = 0
ZERO = 1
HALF_DOLLAR = 2
_FIRST_POWER = 3  # the bucket of 2^0 dollars
_LAST_POWER = 26  # the bucket of 2^23 dollars
PINNED = 27
ALL_BUCKETS = range(PINNED + 1)


def bucket_of(dollars: float) -> int:
    """The bucket that a penalty in dollars falls into. An absent penalty is UNSPECIFIED, which is not ZERO."""
    if dollars <= 0:
        return ZERO
    if dollars <= 0.5:
        return HALF_DOLLAR
    for bucket in range(_FIRST_POWER, _LAST_POWER + 1):
        if dollars <= 2 ** (bucket - _FIRST_POWER):
            return bucket
    return PINNED


def upper_bound(bucket: int) -> float:
    """What a bucket is worth in dollars: its upper edge; infinite when PINNED."""
    if bucket in (UNSPECIFIED, ZERO):
        return 0.0
    if bucket == HALF_DOLLAR:
        return 0.5
    return math.inf if bucket == PINNED else float(2 ** (bucket - _FIRST_POWER))


def label(bucket: int) -> str:
    """The bucket's name as a metric label: `unspecified`, `0`, `0.5`, `1` … `8388608`, `pinned`."""
    if bucket in (UNSPECIFIED, PINNED):
        return "unspecified" if bucket == UNSPECIFIED else "pinned"
    return f"{upper_bound(bucket):g}" if bucket <= HALF_DOLLAR else str(2 ** (bucket - _FIRST_POWER))


LABELS = tuple(map(label, ALL_BUCKETS))


def effective_cost(price_per_hour: float, interruption_probability: float, penalty_dollars: float) -> float:
    """What a machine costs a workload that loses `penalty_dollars` at each interruption.

    See docs/reference/engine.md#cost-and-order.

    A machine that is never interrupted costs its price, however large the penalty (0 × infinity is 0 here).
    """
    if interruption_probability == 0:
        return price_per_hour
    return price_per_hour + interruption_probability * max(0.0, penalty_dollars)

"""What can happen to a settled fleet before the cycle that is timed."""

from collections.abc import Callable
from random import Random

from tests.bench.engine.fleets import Shape
from tests.bench.engine.stand import Stand

CHURN = 0.02
_BURST = 1.1
# Together they ask for this part of the fleet.
_URGENT = 0.2
_URGENT_EVERY = 5
_MOST_TO_PREEMPT = 1_000_000


def _nothing(_stand: Stand, _turn: int) -> None:
    """Steady demand: the engine must decide nothing, and fast."""


def _one_rollup(stand: Stand, turn: int) -> None:
    """One cluster's roll-up brings changes: the most frequent reason for a cycle."""
    ordinal = turn % stand.synthetic.shape.clusters
    stand.send_changed(ordinal, changed_rows(stand.synthetic.shape, ordinal, turn))


def _churn(stand: Stand, turn: int) -> None:
    """2 % of the Configured machines fail and 2 % of the rows change, in every cluster at once."""
    bound = stand.bound
    for machine_id in Random(turn).sample(bound, max(1, round(CHURN * len(bound)))):
        stand.fail(machine_id)
    for ordinal in range(stand.synthetic.shape.clusters):
        stand.send_changed(ordinal, changed_rows(stand.synthetic.shape, ordinal, turn))


def _burst(stand: Stand, _turn: int) -> None:
    """Every plain row asks for 10 % more."""
    for ordinal in range(stand.synthetic.shape.clusters):
        stand.send_more(ordinal, level=_BURST)


def _preemption(stand: Stand, _turn: int) -> None:
    """In a few clusters the most important demand asks for more than is free: the others must give way."""
    shape = stand.synthetic.shape
    urgent = range(0, shape.clusters, _URGENT_EVERY)
    for ordinal in urgent:
        stand.send_more(ordinal, urgent_machines=_URGENT * shape.machines / len(urgent))


def _cold(stand: Stand, _turn: int) -> None:
    """Every binding is lost at once."""
    for machine_id in stand.bound:
        stand.unbind(machine_id)


CASES: dict[str, Callable[[Stand, int], None]] = {
    "steady": _nothing,
    "one roll-up": _one_rollup,
    "2 % churn": _churn,
    "10 % burst": _burst,
    "preemption": _preemption,
    "cold": _cold,
}


def cases_of(machines: int) -> tuple[str, ...]:
    """The cases for a fleet of this size: to come back from a preemption takes millions of machines half an hour."""
    return tuple(case for case in CASES if case != "preemption" or machines <= _MOST_TO_PREEMPT)


def changed_rows(shape: Shape, ordinal: int, turn: int) -> frozenset[int]:
    """The 2 % of a cluster's rows that change in a turn."""
    return frozenset(Random(f"{turn}/{ordinal}").sample(range(shape.rows), max(1, round(CHURN * shape.rows))))

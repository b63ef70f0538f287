"""Mistakes in what BigFleet says of itself: the run cannot judge it then, and must not pass."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry

FIGURES: list[Entry] = [
    Entry(
        "a metric is missing",
        "operator",
        (5,),
        frozenset({"operatorAckP99Seconds"}),
        verdict="no-data",
        sentence="operatorAckP99Seconds is no-data: there is no value for it",
        mistakes=(
            Mistake(
                "operator/metrics.py",
                "bigfleet_operator_acknowledge_duration_seconds",
                "bigfleet_operator_ack_seconds",
            ),
        ),
    ),
    Entry(
        "a histogram is saturated",
        "shard",
        (5,),
        frozenset({"shardConfigurePhaseP99Seconds"}),
        verdict="saturated",
        sentence="shardConfigurePhaseP99Seconds is saturated: beyond the histogram's last bucket (0.5)",
        observations=10,
        mistakes=(
            Mistake(
                "shard/metrics.py",
                "_PHASE_BUCKETS = exponential_buckets(0.01, _FINE, 36)",
                "_PHASE_BUCKETS = (0.1, 0.2, 0.5)",
            ),
        ),
    ),
]

"""Victims: how good a machine is to take from lower-priority work, and how long it may take to leave.

See docs/reference/engine.md#victims.
"""

# Every victim is taken to drain for as long, so that term of the score decides nothing today.
_ASSUMED_DRAIN_SECONDS = 30.0
_PENALTY_FLOOR_DOLLARS = 0.01
# (gap above which, grace in seconds): the more important the newcomer, the shorter the victim's notice.
_GRACE_BY_GAP = ((900_000, 10), (500_000, 30), (100_000, 120))
LONGEST_GRACE_SECONDS = 600


def victim_score(
    preemptor_priority: int, assigned_priority: int, interruption_dollars: float, reclamation_dollars: float
) -> float:
    """How good a victim a machine is; higher is better (locked). PINNED work adds nothing: 1 / infinity is 0."""
    return (
        priority_gap(preemptor_priority, assigned_priority) * 1.0
        + (1 / _ASSUMED_DRAIN_SECONDS) * 0.1
        + (1 / max(interruption_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
        + (1 / max(reclamation_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
    )


def priority_gap(preemptor_priority: int, assigned_priority: int) -> int:
    return max(0, preemptor_priority - assigned_priority)


def drain_grace_seconds(gap: int) -> int:
    """How long a victim may take to leave."""
    return next((seconds for above, seconds in _GRACE_BY_GAP if gap > above), LONGEST_GRACE_SECONDS)

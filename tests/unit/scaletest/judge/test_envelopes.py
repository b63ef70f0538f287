"""A claim must lie between what its witness was lately."""

from hypothesis import given
from hypothesis import strategies as st

from scaletest.judge.readings.envelopes import SLACK_SHARE, Curves, seconds_outside

A = ("kwok-cluster-0", "cpu")
B = ("kwok-cluster-1", "cpu")
TIMES = tuple(float(at) for at in range(0, 60, 5))


def flat(value: float) -> dict[float, float]:
    return dict.fromkeys(TIMES, value)


def curves(
    claim: dict[tuple[str, ...], dict[float, float]],
    low: dict[tuple[str, ...], dict[float, float]],
    high: dict[tuple[str, ...], dict[float, float]],
    slack: float = 0.0,
    spoke: frozenset[float] = frozenset(TIMES),
) -> Curves:
    return Curves(claim, low, high, dict.fromkeys(low, slack), spoke)


def test_a_claim_within_the_envelope_is_no_finding() -> None:
    assert seconds_outside(curves({A: flat(40)}, {A: flat(38)}, {A: flat(41)}), 5) is None


def test_too_little_and_too_much_are_findings_alike() -> None:
    for wrong in (32, 48):
        found = seconds_outside(curves({A: flat(wrong)}, {A: flat(40)}, {A: flat(40)}), 5)
        assert found and (found.key, found.seconds, found.claim) == (A, 60, wrong)


def test_the_worst_member_is_named() -> None:
    some = flat(40) | {0.0: 30.0}
    found = seconds_outside(curves({A: some, B: flat(0)}, {A: flat(40), B: flat(40)}, {A: flat(40), B: flat(40)}), 5)
    assert found and found.key == B


def test_a_missing_claim_is_a_claim_of_nothing_while_the_shard_speaks() -> None:
    found = seconds_outside(curves({}, {A: flat(40)}, {A: flat(40)}), 5)
    assert found and (found.seconds, found.claim) == (60, 0)
    assert seconds_outside(curves({}, {A: flat(40)}, {A: flat(40)}, spoke=frozenset()), 5) is None


def test_a_claim_that_the_witness_of_its_cluster_does_not_have_is_a_finding() -> None:
    gpu = ("kwok-cluster-0", "gpu")
    found = seconds_outside(curves({A: flat(40), gpu: flat(8)}, {A: flat(40)}, {A: flat(40)}), 5)
    assert found and found.key == gpu


def test_without_a_witness_there_is_no_finding() -> None:
    assert seconds_outside(curves({A: flat(40)}, {}, {}), 5) is None
    blind = {0.0: 40.0}
    found = seconds_outside(curves({A: flat(99)}, {A: blind}, {A: blind}), 5)
    assert found and found.seconds == 5, "only where the witness was there"


def test_one_pod_more_or_less_is_allowed_for() -> None:
    assert seconds_outside(curves({A: flat(36)}, {A: flat(40)}, {A: flat(40)}, slack=4), 5) is None
    assert seconds_outside(curves({A: flat(35)}, {A: flat(40)}, {A: flat(40)}, slack=4), 5)


_WALK = st.lists(st.floats(0, 1000), min_size=12, max_size=12)


@given(_WALK, st.integers(0, 5), st.floats(-SLACK_SHARE, SLACK_SHARE))
def test_whatever_the_witness_was_within_the_window_may_be_claimed(walk: list[float], behind: int, off: float) -> None:
    low, high, claim = {}, {}, {}
    for number, at in enumerate(TIMES):
        recent = walk[max(0, number - 5) : number + 1]
        low[at], high[at] = min(recent), max(recent)
        claim[at] = walk[max(0, number - behind)] * (1 + off)
    assert seconds_outside(curves({A: claim}, {A: low}, {A: high}), 5) is None

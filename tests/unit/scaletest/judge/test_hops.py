"""Which hop is broken: a silent actor first, then the first hop that nothing has passed."""

from dataclasses import replace

from scaletest.judge.hops import HOPS, HopReading, broken_hop, hops_of

FLOWING = [HopReading(hop, passed=5.0, answers=True) for hop in HOPS]


def with_change(actor: str, passed: float | None = 5.0, answers: bool = True) -> list[HopReading]:
    index = next(i for i, reading in enumerate(FLOWING) if reading.hop.actor == actor and reading.hop.target)
    return [*FLOWING[:index], replace(FLOWING[index], passed=passed, answers=answers), *FLOWING[index + 1 :]]


def test_a_flow_that_reaches_the_end_has_no_broken_hop() -> None:
    assert broken_hop(FLOWING, {}) == ""


def test_every_row_of_the_spec_is_watched() -> None:
    assert {hop.row for hop in HOPS} == set(range(1, 12))


def test_a_silent_actor_is_named_although_hops_before_it_ran_dry_too() -> None:
    readings = [replace(reading, passed=0.0) for reading in with_change("node-creator", answers=False)]
    assert broken_hop(readings, {}).startswith("hop 9")
    assert "node-creator does not answer" in broken_hop(readings, {})


def test_the_first_dry_hop_is_named() -> None:
    assert broken_hop(with_change("pod-controller", passed=0.0), {}).startswith("hop 3")
    assert broken_hop(with_change("shard", passed=None), {}).startswith("hop 5")


def test_a_refusing_provider_is_named_with_how_bootstraps_ended() -> None:
    sentence = broken_hop(with_change("provider", passed=0.0), {"provider_error": 23.0})
    assert sentence.startswith("hop 7 (the provider accepts Configure)")
    assert "provider_error 23" in sentence


def test_demand_without_pods_goes_no_hop_of_pods() -> None:
    assert hops_of("pod") == HOPS
    assert {hop.row for hop in hops_of("cr")} == {1, 4, 5, 6, 7, 8, 9}

"""Where time or success is lost when everything flows (docs/reference/harness.md#reading-a-bad-run)."""

from bigfleet.shard.metrics import ActionOutcome
from scaletest.judge.readings.bottlenecks import OUTCOMES, attribution


def test_failed_bootstraps_come_first_and_say_what_their_outcome_means() -> None:
    sentence = attribution({"success": 50, "no_session": 9, "ctx_canceled": 2}, {"configure": 60.0})
    assert sentence == (
        "11 Bootstraps of the last two minutes failed, most of them as no_session (the stream to the operator was gone)"
    )


def test_slow_machines_are_split_between_operator_and_provider() -> None:
    assert "mostly the provider and the node" in attribution({"success": 5}, {"configure": 20.0, "request": 1.0})
    assert "mostly the operator's answer" in attribution({}, {"configure": 20.0, "request": 15.0})


def test_late_node_states_point_at_the_apiserver() -> None:
    sentence = attribution({}, {"node state": 8.0, "conflicts": 12.0})
    assert "8.0 s late" in sentence
    assert "12 write conflicts" in sentence


def test_an_operator_that_announces_machines_late_is_not_taken_for_a_slow_provider() -> None:
    assert "published 8.0 s late" in attribution({"success": 5}, {"configure": 10.0, "request": 1.0, "node state": 8.0})
    assert "the provider and the node" in attribution({"success": 5}, {"configure": 30.0, "node state": 6.0})


def test_late_nodes_point_at_the_node_creator() -> None:
    assert "node-creator" in attribution({}, {"upcoming": 9.0})


def test_nothing_is_blamed_when_nothing_stands_out() -> None:
    assert attribution({"success": 5}, {"configure": 1.0, "request": None}) == ""


def test_every_way_a_bootstrap_can_fail_is_explained() -> None:
    assert OUTCOMES.keys() == {outcome.value for outcome in ActionOutcome} - {"success"}

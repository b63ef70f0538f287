"""Did the load come? What was planned, against what came in time."""

from scaletest.judge.gates.windows import Stretch
from scaletest.judge.selfcheck.checks import load_that_did_not_come
from scaletest.judge.selfcheck.delivery import Delivered, judge_delivery, judge_gaps, longest_unseen
from scaletest.model.documents.substrate import SelfCheck

LIMITS = SelfCheck()


def test_all_but_a_few_is_all() -> None:
    assert judge_delivery(LIMITS, {"deletions": Delivered(10, 7)}).verdict == "ok"
    assert judge_delivery(LIMITS, {"deletions": Delivered(10, 6)}).verdict == "over"
    assert judge_delivery(LIMITS, {"deletions": Delivered(1000, 950)}).verdict == "ok"
    assert judge_delivery(LIMITS, {"deletions": Delivered(1000, 949)}).verdict == "over"
    assert judge_delivery(LIMITS, {"deletions": Delivered(0, 0)}).value == 1


def test_the_worst_kind_of_event_decides_and_is_named() -> None:
    record = judge_delivery(LIMITS, {"deletions": Delivered(90, 90), "successors of deleted Pods": Delivered(90, 30)})
    assert record.verdict == "over"
    assert record.reason.startswith("30 of 90 successors of deleted Pods came in time")
    assert load_that_did_not_come([record]).startswith("the load did not come, so the verdict is void: 30 of 90")


def test_what_nobody_counted_is_unmeasured() -> None:
    record = judge_delivery(LIMITS, {"deletions": Delivered(90, 90), "losses": None})
    assert (record.verdict, record.reason) == ("unmeasured", "no process counted losses")


def test_a_load_driver_that_is_not_seen_for_long_may_have_done_anything() -> None:
    soak = Stretch(0.0, 60.0)
    up = [(float(at), 1.0) for at in range(2, 60, 5)]
    assert longest_unseen(up, soak) == 5
    stopped = [(at, 0.0 if 20 < at < 29 else value) for at, value in up]
    assert longest_unseen(stopped, soak) == 15, "two scrapes in a row that failed"
    assert judge_gaps(LIMITS, {"kwok-cluster-0 (load-driver)": 15.0}).verdict == "ok"
    dead = [(at, value) for at, value in up if at < 30]
    assert longest_unseen(dead, soak) == 33
    record = judge_gaps(LIMITS, {"provider-0": 5.0, "kwok-cluster-0 (load-driver)": 33.0})
    assert record.verdict == "over"
    assert record.reason.startswith("kwok-cluster-0 (load-driver) was not seen for 33 s")
    assert judge_gaps(LIMITS, {}).verdict == "unmeasured"

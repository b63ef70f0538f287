from bigfleet.sim.world.timeline import Rank, Timeline


def test_events_happen_in_order_of_time_then_rank_then_arrangement() -> None:
    timeline, seen = Timeline(), list[str]()
    timeline.at(5, Rank.CYCLE, lambda: seen.append("cycle"))
    timeline.at(5, Rank.PROVIDER, lambda: seen.append("provider, first"))
    timeline.at(5, Rank.PROVIDER, lambda: seen.append("provider, second"))
    timeline.at(2, Rank.SAMPLE, lambda: seen.append("early"))
    timeline.run_until(10)
    assert seen == ["early", "provider, first", "provider, second", "cycle"]
    assert timeline.now == 10


def test_what_an_event_arranges_for_the_same_instant_still_happens() -> None:
    timeline, seen = Timeline(), list[float]()
    timeline.at(3, Rank.CYCLE, lambda: timeline.at(1, Rank.PROVIDER, lambda: seen.append(timeline.now)))
    timeline.run_until(3)
    assert seen == [3]


def test_what_lies_beyond_the_end_waits() -> None:
    timeline, seen = Timeline(), list[str]()
    timeline.after(7, Rank.FAULT, lambda: seen.append("late"))
    timeline.run_until(6.9)
    assert seen == []
    timeline.run_until(7)
    assert seen == ["late"]

"""What a user sees of a build: one live line on a terminal, few plain lines in a log."""

import io

import pytest

from scaletest.toolchain.progress import Display, Notice, Phase, Step, Update, duration

FIRST = Step("etcd", "3.6.6", 1, 2, "kwok")
LAST = Step("kwok", "0.8.0", 2, 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_at_the_start_and_end_of_each_tool() -> None:
    stream = io.StringIO()
    with Display(stream) as progress:
        progress(Update(FIRST, Phase.STARTED))
        progress(Update(FIRST, Phase.WORKING, 1.0))
        progress(Update(FIRST, Phase.DONE, 24.0, "27 MB"))
        progress(Update(LAST, Phase.STARTED))
        progress(Update(LAST, Phase.DONE, 66.0, "84 MB"))
    assert stream.getvalue().splitlines() == [
        "[1/2] etcd 3.6.6: building, next kwok",
        "[1/2] etcd 3.6.6: built in 24s, 27 MB",
        "[2/2] kwok 0.8.0: building",
        "[2/2] kwok 0.8.0: built in 1m06s, 84 MB",
        "tools ready after 1m30s",
    ]


def test_a_log_hears_of_a_long_build_every_thirty_seconds() -> None:
    stream = io.StringIO()
    with Display(stream) as progress:
        for second in range(1, 95):
            progress(Update(LAST, Phase.WORKING, float(second)))
    assert stream.getvalue().splitlines() == [
        "[2/2] kwok 0.8.0: still building after 30s",
        "[2/2] kwok 0.8.0: still building after 1m00s",
        "[2/2] kwok 0.8.0: still building after 1m30s",
    ]


def test_waiting_for_another_process_is_said_once_and_then_every_thirty_seconds() -> None:
    stream = io.StringIO()
    with Display(stream) as progress:
        for tenth in range(0, 310, 2):
            progress(Update(LAST, Phase.WAITING, tenth / 10))
        progress(Update(LAST, Phase.FOUND))
    assert stream.getvalue().splitlines() == [
        "[2/2] kwok 0.8.0: waiting for another process that is building it",
        "[2/2] kwok 0.8.0: waiting for another process that is building it, 30s so far",
        "[2/2] kwok 0.8.0: built meanwhile by another process",
    ]


def test_a_terminal_has_one_line_that_says_what_how_long_and_what_is_next() -> None:
    stream = Terminal()
    with Display(stream) as progress:
        progress(Update(FIRST, Phase.WORKING, 72.0, "downloading go.uber.org/zap v1.27.0"))
        shown = stream.getvalue().rpartition("\x1b[K")[2]
        progress(Update(FIRST, Phase.DONE, 80.0))
    assert shown == "building etcd 3.6.6 · 1 of 2 · 1m12s · next kwok · downloading go.uber.org/zap "
    assert len(shown) == 79, "a line as wide as the terminal would wrap"
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith("\r\x1b[Ktools ready after 1m20s\n")


def test_a_failure_takes_the_live_line_away_and_claims_nothing() -> None:
    stream = Terminal()
    with pytest.raises(RuntimeError), Display(stream) as progress:
        progress(Update(FIRST, Phase.DONE, 24.0))
        progress(Update(LAST, Phase.WORKING, 3.0))
        raise RuntimeError
    assert stream.getvalue().endswith("\r\x1b[K")
    assert "ready" not in stream.getvalue()


def test_nothing_is_shown_when_nothing_had_to_be_built() -> None:
    stream = io.StringIO()
    with Display(stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_notice_stands_on_a_line_of_its_own(stream: io.StringIO) -> None:
    with Display(stream) as progress:
        progress(Notice("not used: kubectl is version 1.32.4"))
    assert "not used: kubectl is version 1.32.4\n" in stream.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (3725, "62m05s")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text

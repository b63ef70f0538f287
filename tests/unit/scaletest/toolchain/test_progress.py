"""What a user sees of a build: one live line on a terminal, few plain lines in a log."""

import io

import pytest

from scaletest.toolchain.progress import ProgressDisplay, ProgressNote, Step, StepState, Update, duration

FIRST = Step("etcd", "3.6.6", 1, 2, "kwok")
LAST = Step("kwok", "0.8.0", 2, 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


class Clock:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_a_log_gets_a_line_at_the_start_and_end_of_each_tool() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressDisplay(stream, clock) as progress:
        progress(Update(FIRST, StepState.STARTED))
        progress(Update(FIRST, StepState.WORKING, 1.0))
        progress(Update(FIRST, StepState.DONE, 24.0, "27 MB"))
        progress(Update(LAST, StepState.STARTED))
        progress(Update(LAST, StepState.DONE, 66.0, "84 MB"))
        clock.now += 91
    assert stream.getvalue().splitlines() == [
        "[1/2] etcd 3.6.6: building, next kwok",
        "[1/2] etcd 3.6.6: built in 24s, 27 MB",
        "[2/2] kwok 0.8.0: building",
        "[2/2] kwok 0.8.0: built in 1m06s, 84 MB",
        "tools ready after 1m31s",
    ]


def test_a_log_hears_of_a_long_build_every_thirty_seconds() -> None:
    stream = io.StringIO()
    progress = ProgressDisplay(stream)
    for second in range(1, 95):
        progress(Update(LAST, StepState.WORKING, float(second)))
    assert stream.getvalue().splitlines() == [
        "[2/2] kwok 0.8.0: still building after 30s",
        "[2/2] kwok 0.8.0: still building after 1m00s",
        "[2/2] kwok 0.8.0: still building after 1m30s",
    ]


def test_waiting_for_another_process_is_said_once_and_then_every_thirty_seconds() -> None:
    stream = io.StringIO()
    progress = ProgressDisplay(stream)
    for tenth in range(0, 310, 2):
        progress(Update(LAST, StepState.WAITING, tenth / 10, "process 4711"))
    progress(Update(LAST, StepState.FOUND))
    assert stream.getvalue().splitlines() == [
        "[2/2] kwok 0.8.0: waiting for process 4711, which is building it",
        "[2/2] kwok 0.8.0: waiting for process 4711, which is building it, 30s so far",
        "[2/2] kwok 0.8.0: built meanwhile by another process",
    ]


def test_a_terminal_has_one_live_line_that_says_what_how_long_and_what_is_next() -> None:
    stream = Terminal()
    progress = ProgressDisplay(stream)
    progress(Update(FIRST, StepState.WORKING, 72.0, "downloading go.uber.org/zap/exp/zapslog v1.27.0"))
    shown = stream.getvalue().rpartition("\x1b[K")[2]
    assert shown == "[1/2] building etcd 3.6.6 · 1m12s · next kwok · downloading go.uber.org/zap/ex…"
    assert len(shown) == 79, "a line as wide as the terminal would wrap"
    progress(Update(FIRST, StepState.WAITING, 3.0, "process 4711"))
    shown = stream.getvalue().rpartition("\x1b[K")[2]
    assert shown == "[1/2] waiting for process 4711, which is building etcd 3.6.6 · 3s · next kwok"


def test_finished_tools_stay_on_the_terminal_above_the_live_line() -> None:
    stream, clock = Terminal(), Clock()
    with ProgressDisplay(stream, clock) as progress:
        progress(Update(FIRST, StepState.WORKING, 79.0))
        progress(Update(FIRST, StepState.DONE, 80.0, "27 MB"))
        progress(Update(LAST, StepState.WORKING, 1.0))
        clock.now += 82
    lines = [line.rpartition("\x1b[K")[2] for line in stream.getvalue().split("\n")]
    assert lines == ["[1/2] etcd 3.6.6: built in 1m20s, 27 MB", "tools ready after 1m22s", ""]


def test_a_terminal_that_cannot_erase_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    progress = ProgressDisplay(stream)
    progress(Update(FIRST, StepState.STARTED))
    assert stream.getvalue() == "[1/2] etcd 3.6.6: building, next kwok\n"


def test_when_nobody_reads_any_more_the_build_goes_on() -> None:
    with ProgressDisplay(Gone()) as progress:
        progress(Update(FIRST, StepState.STARTED))
        progress(Update(FIRST, StepState.DONE, 1.0))


def test_a_failure_takes_the_live_line_away_and_claims_nothing() -> None:
    stream = Terminal()
    with pytest.raises(RuntimeError), ProgressDisplay(stream) as progress:
        progress(Update(FIRST, StepState.DONE, 24.0))
        progress(Update(LAST, StepState.WORKING, 3.0))
        raise RuntimeError
    assert stream.getvalue().endswith("\r\x1b[K")
    assert "ready" not in stream.getvalue()


def test_nothing_is_shown_when_nothing_had_to_be_built() -> None:
    for stream in (io.StringIO(), Terminal()):
        with ProgressDisplay(stream):
            pass
        assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_notice_stands_on_a_line_of_its_own(stream: io.StringIO) -> None:
    with ProgressDisplay(stream) as progress:
        progress(ProgressNote("not used: kubectl is version 1.32.4"))
    assert "not used: kubectl is version 1.32.4\n" in stream.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (3725, "62m05s")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text

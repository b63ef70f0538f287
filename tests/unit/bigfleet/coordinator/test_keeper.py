"""The keeper between a coordinator and its member: whose words reach the terminal."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bigfleet.coordinator import keeper
from bigfleet.process import parentdeath

# Says what etcd would, and then "ready" on stdout, where a test can wait for it.
MEMBER = """
import signal, sys, time
def stop(*_):
    sys.stderr.write("an error for each closed listener\\n")
    sys.stderr.flush()
    sys.exit({status})
signal.signal(signal.SIGTERM, stop)
sys.stderr.write("a real trouble\\n")
sys.stderr.flush()
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def kept(member: str) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(
        [sys.executable, "-IS", keeper.__file__, "100", parentdeath.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        process.stdin.write(json.dumps([sys.executable, "-c", member]).encode() + b"\n")
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, b""), (3, b"an error for each closed listener\n")],
    ids=["a clean stop", "a stop that went wrong"],
)
def test_what_a_member_says_while_it_stops_is_shown_only_when_that_went_wrong(status: int, words: bytes) -> None:
    with kept(MEMBER.format(status=status)) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        assert process.stderr
        assert process.stderr.readline() == b"a real trouble\n"
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()  # its stdin stays open: the end of that would be a second word to stop
        assert (process.wait(60), said) == (status, words)


def test_the_last_words_of_a_member_that_dies_are_shown() -> None:
    with kept("import sys; sys.exit('the disk is gone')") as process:
        assert process.stderr
        said = process.stderr.read()
        assert (process.wait(60), said) == (1, b"the disk is gone\n")

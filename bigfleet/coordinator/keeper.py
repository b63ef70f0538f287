"""Stands between a coordinator and its etcd member, so that neither outlives or outleads the other.

A coordinator says on our stdin what to run, one line of JSON, and beats from then on. When it falls silent, its member
must not go on leading for it: the member is asked to stop, which hands its leadership over, and then the coordinator is
killed. What a member logs while it stops is of no use (each of its closed listeners is an error with a stack trace), so
it is passed on only when the stop went wrong. Runs as a file of its own, on the standard library alone:
`python -IS keeper.py SILENT_TICKS PARENTDEATH.py`.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

TICK_SECONDS = 0.5
_STOP_SECONDS = 3.0
_DRAIN_SECONDS = 1.0
_LAST_LINES = 50


def keep(coordinator: int, silent_ticks: int, command: Sequence[str]) -> int:
    """Run `command` until it ends, `coordinator` dies, or it was silent for so many ticks; the member's exit status."""
    member = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    words = _Words(member.stderr or ())
    words.start()
    # A wait that is over when a child ends or a signal comes: Python writes a byte here for each.
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: _ask_to_stop(member, words))
    silence = 0
    while member.poll() is None:
        # Ticks are counted, not seconds: after a pause of the whole machine the coordinator gets its chance to beat.
        readable, _, _ = select.select([0, woken], [], [], TICK_SECONDS)
        if woken in readable:
            os.read(woken, 1024)
        if 0 in readable:
            silence = 0
            if not os.read(0, 1024):
                _stop(member, words)
        elif not readable:
            silence += 1
            if silence >= silent_ticks:
                sys.stderr.write(f"the coordinator hung for {silence * TICK_SECONDS:g} s: ending it and its member\n")
                _stop(member, words)
                if os.getppid() == coordinator:
                    os.kill(coordinator, signal.SIGKILL)
    words.join(_DRAIN_SECONDS)
    if member.returncode not in (0, -signal.SIGTERM):
        words.release()
    return member.returncode


class _Words(threading.Thread):
    """Passes on what the member says. A thread, so that a talkative member is not taken for a coordinator's beat."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        super().__init__(daemon=True)
        self._lines = lines
        self._holding = False
        self._held: deque[bytes] = deque(maxlen=_LAST_LINES)

    def hold(self) -> None:
        """Keep back what comes from now on."""
        self._holding = True

    def release(self) -> None:
        """Say what was kept back."""
        _say(b"".join(self._held))

    def run(self) -> None:
        for line in self._lines:
            if self._holding:
                self._held.append(line)
            else:
                _say(line)


def _say(text: bytes) -> None:
    with suppress(OSError):  # go on reading if stderr is closed: a member blocks when its pipe is full
        os.write(2, text)


def _ask_to_stop(member: "subprocess.Popen[bytes]", words: _Words) -> None:
    words.hold()
    member.terminate()


def _stop(member: "subprocess.Popen[bytes]", words: _Words) -> None:
    _ask_to_stop(member, words)
    try:
        member.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        member.kill()
        member.wait()


if __name__ == "__main__":
    silent_ticks, parentdeath = sys.argv[1:]
    order = b""
    while not order.endswith(b"\n"):
        if not (byte := os.read(0, 1)):
            sys.exit(0)
        order += byte
    dying_with_us = [sys.executable, "-IS", parentdeath, str(os.getpid()), *json.loads(order)]
    status = keep(os.getppid(), int(silent_ticks), dying_with_us)
    sys.exit(status if status >= 0 else 128 - status)

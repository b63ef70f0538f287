"""Stands between a coordinator and its etcd member, so that neither outlives or outleads the other.

A coordinator says on our stdin what to run, one line of JSON, and beats from then on. When it falls silent, its member
must not go on leading for it: the member is asked to stop, which hands its leadership over, and then the coordinator is
killed. Runs as a file of its own, on the standard library alone: `python -IS keeper.py SILENT_TICKS PARENTDEATH.py`.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

TICK_SECONDS = 0.5
_STOP_SECONDS = 3.0


def keep(coordinator: int, silent_ticks: int, command: Sequence[str]) -> int:
    """Run `command` until it ends, `coordinator` dies, or it was silent for so many ticks; the member's exit status."""
    member = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    # A wait that is over when a child ends or a signal comes: Python writes a byte here for each.
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: member.terminate())
    silence = 0
    while member.poll() is None:
        # Ticks are counted, not seconds: after a pause of the whole machine the coordinator gets its chance to beat.
        readable, _, _ = select.select([0, woken], [], [], TICK_SECONDS)
        if woken in readable:
            os.read(woken, 1024)
        if 0 in readable:
            silence = 0
            if not os.read(0, 1024):
                _stop(member)
        elif not readable:
            silence += 1
            if silence >= silent_ticks:
                sys.stderr.write(f"the coordinator hung for {silence * TICK_SECONDS:g} s: ending it and its member\n")
                _stop(member)
                if os.getppid() == coordinator:
                    os.kill(coordinator, signal.SIGKILL)
    return member.returncode


def _stop(member: "subprocess.Popen[bytes]") -> None:
    member.terminate()
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

"""Runs a command, and kills it with all its children when the process that asked for it is gone.

Run as a script, in a session of its own, with a pipe as standard input whose other end only the caller holds: the pipe
ends with the caller, even by SIGKILL. A parent-death signal alone would reach `go`, but not the compilers it started.
"""

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path


def _kill_all_at_the_end_of_input() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main(argv: list[str]) -> int:
    # A fresh interpreter without site-packages starts at once, but has to be told where the project is.
    sys.path.append(str(Path(__file__).parents[2]))
    from bigfleet.process.parentdeath import die_with

    # Signals are for the command, which gets them too. A handler, not SIG_IGN: that would be inherited.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    try:
        command = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=partial(die_with, os.getpid()))
    except OSError as error:
        sys.stderr.write(f"{argv[0]} cannot be started: {error}\n")
        return 127
    threading.Thread(target=_kill_all_at_the_end_of_input, daemon=True).start()
    code = command.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

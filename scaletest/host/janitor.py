"""The last one out: waits until its host is gone, then kills what carries the host's marker and removes its files.

Runs as a process in a session of its own. The host holds the other end of its standard input, so however the host
ends, the janitor reads the end of the file. It imports nothing but the standard library.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from scaletest.host.markers import HOST_MARKER, kill_marked

MODULE = "scaletest.host.janitor"
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.02


def clean_up(host_id: str, directory: Path) -> bool:
    """Kill every process of the host and remove its directory; whether nothing is left."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while kill_marked(**{HOST_MARKER: host_id}) or directory.exists():
        # A dying process may still write: remove until it stays removed.
        shutil.rmtree(directory, ignore_errors=True)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def main(host_id: str, directory: Path) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    return 0 if clean_up(host_id, directory) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))

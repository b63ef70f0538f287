"""Ends a host that some other command brought up, and makes sure that nothing of it is left."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from scaletest.errors import Leftovers
from scaletest.host.janitor import clean_up
from scaletest.host.markers import HOST_MARKER, carries, marked
from scaletest.host.registry import RegisteredHost

# Pods get their grace, then the control plane ends; hostd's own limits are below this.
_PATIENCE_SECONDS = 40.0
_POLL_SECONDS = 0.05


async def end_host(host: RegisteredHost, *, force: bool = False) -> None:
    """Tell hostd to stop, wait for it and its janitor, and remove what they left. Raises Leftovers if that fails.

    `force` kills hostd at once, so that pods and control plane get no grace.
    """
    if host.daemon is not None:
        _signal(host, signal.SIGKILL if force else signal.SIGTERM)
        await asyncio.to_thread(_wait_until_gone, host.id, host.directory)
    if not await asyncio.to_thread(clean_up, host.id, host.directory):
        raise leftovers(host.id, host.directory)


def leftovers(host_id: str, directory: Path) -> Leftovers:
    return Leftovers(
        f"host {host_id} left processes, or files in {directory}",
        hint=f"look for {HOST_MARKER}={host_id} in /proc/*/environ",
    )


def _wait_until_gone(host_id: str, directory: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (directory.exists() or marked(**{HOST_MARKER: host_id})) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _signal(host: RegisteredHost, number: signal.Signals) -> None:
    if host.daemon is None:
        return
    # The descriptor pins the process: a number that is reused between look and signal, even by another host's hostd, is
    # not hit.
    with contextlib.suppress(ProcessLookupError):
        pinned = os.pidfd_open(host.daemon)
        try:
            if carries(host.daemon, **{HOST_MARKER: host.id}):
                signal.pidfd_send_signal(pinned, number)
        finally:
            os.close(pinned)

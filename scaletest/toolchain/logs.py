"""The end of a command's log: for a live line, and for the message when it failed."""

import time
from pathlib import Path

from bigfleet.process.childprocess import last_lines

_TAIL_LINES = 15
_DOWNLOADING = "go: downloading "
# Compiling prints nothing: a last line older than this is no longer what Go does.
_FRESH_SECONDS = 10


def tail(log: Path) -> str:
    """The last lines that may say why, without the list of downloads."""
    lines = last_lines(log)
    telling = [line for line in lines if not line.startswith(_DOWNLOADING)]
    return "\n".join((telling or lines)[-_TAIL_LINES:])


def current_download(log: Path) -> str:
    """`downloading k8s.io/api v0.34.4` while Go fetches modules, else nothing."""
    if time.time() - log.stat().st_mtime > _FRESH_SECONDS:
        return ""
    lines = last_lines(log)
    return lines[-1].removeprefix("go: ") if lines and lines[-1].startswith(_DOWNLOADING) else ""

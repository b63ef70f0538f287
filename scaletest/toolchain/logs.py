"""The end of a command's log: for a live line, and for the message when it failed."""

from pathlib import Path

_TAIL_LINES = 15
_TAIL_BYTES = 16_384
_DOWNLOADING = "go: downloading "


def tail(log: Path) -> str:
    """The last lines that may say why, without the list of downloads."""
    lines = _last_lines(log)
    telling = [line for line in lines if not line.startswith(_DOWNLOADING)]
    return "\n".join((telling or lines)[-_TAIL_LINES:])


def current_download(log: Path) -> str:
    """`downloading k8s.io/api v0.34.4` while Go fetches modules, else nothing."""
    lines = _last_lines(log)
    return lines[-1].removeprefix("go: ") if lines and lines[-1].startswith(_DOWNLOADING) else ""


def _last_lines(log: Path) -> list[str]:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()

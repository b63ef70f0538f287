"""Files that appear whole, and directories that belong to one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bigfleet.errors import BigFleetError, ExitStatus

_LOCK = "lock"


class InUse(BigFleetError):
    """The directory belongs to another process that is running."""

    exit_code = ExitStatus.WRONG_USE


def lock(directory: Path) -> int:
    """Take a directory for ourselves, until the descriptor is closed or we end. Raises InUse."""
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InUse(f"{directory} belongs to another process that is running") from None
    return descriptor


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """The directory exists, and is ours inside the block."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = lock(directory)
    try:
        yield
    finally:
        os.close(descriptor)


def write_file(path: Path, content: bytes, *, mode: int) -> None:
    """Put a whole file in place at once, with `mode` from its first byte on."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)

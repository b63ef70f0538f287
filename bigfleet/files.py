"""Files that appear whole, and with their mode from the first byte on."""

import os
from pathlib import Path


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

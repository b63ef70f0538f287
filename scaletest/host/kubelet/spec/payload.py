"""The content of a volume on disk, replaced as a whole: a reader sees all of the old files or all of the new ones.

As kubelets do it: the files live in a hidden directory, `..data` points to it, and what stands in the volume are links
through `..data`. A program that waits for changes watches that one link.
"""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_MODE = 0o644
PRIVATE_MODE = 0o600
_CURRENT = "..data"


@dataclass(frozen=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int = DEFAULT_MODE


def write_payload(directory: Path, files: Mapping[str, File]) -> None:
    """Make the directory hold exactly these files; nothing is touched if it does already."""
    current = directory / _CURRENT
    if current.exists() and _read(current) == {name: _own(file) for name, file in files.items()}:
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    former = current.resolve() if current.exists() else None
    fresh = directory / f"..{time.time_ns()}"
    for name, file in files.items():
        _write(fresh / name, _own(file))
    fresh.mkdir(mode=0o700, exist_ok=True)
    swap = directory / f"{_CURRENT}.new"
    swap.unlink(missing_ok=True)
    swap.symlink_to(fresh.name)
    swap.replace(current)
    _link(directory, {Path(name).parts[0] for name in files})
    if former:
        shutil.rmtree(former)


def _link(directory: Path, names: set[str]) -> None:
    for path in directory.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            path.unlink()
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(Path(_CURRENT) / name)


def _own(file: File) -> File:
    """The file with a mode that lets us, its owner, read and replace it."""
    return File(file.content, file.mode | PRIVATE_MODE)


def _write(path: Path, file: File) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_MODE)
    with os.fdopen(descriptor, "wb") as output:
        output.write(file.content)
    path.chmod(file.mode)


def _read(directory: Path) -> dict[str, File]:
    real = directory.resolve()
    return {
        str(path.relative_to(real)): File(path.read_bytes(), path.stat().st_mode & 0o777)
        for path in real.rglob("*")
        if path.is_file()
    }

"""The shard's epoch: +1 at each start, so that a provider can tell a restarted shard from its zombie.

See docs/reference/engine.md#epochs.
"""

import itertools
import os
from pathlib import Path

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.rpc.fencing import FencingToken

_FILE = "epoch"


class CorruptEpoch(BigFleetError):
    """The epoch file can't be read. Starting anyway could reuse an epoch, so the shard refuses to."""

    exit_code = ExitStatus.WRONG_USE


class Fence:
    """Mints tokens that are strictly newer than every earlier one of this shard."""

    def __init__(self, shard_id: str, epoch: int) -> None:
        self.shard_id = shard_id
        self.epoch = epoch
        self._sequence = itertools.count(1)

    def next(self) -> FencingToken:
        return FencingToken(self.shard_id, self.epoch, next(self._sequence))


def next_epoch(data_dir: Path, now: float) -> int:
    """Raise the epoch on disk by one and return it.

    Without a file it starts from the clock's seconds: a shard that lost its disk must not come back with an epoch that
    the provider has seen, or it would be fenced as its own zombie (ADR-5).
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / _FILE
    epoch = _read(path, otherwise=int(now) - 1) + 1
    write_durably(path, f"{epoch}\n")
    return epoch


def _read(path: Path, otherwise: int) -> int:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return otherwise
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptEpoch(f"cannot read {path}: {error}") from error
    if not text.strip().isdecimal() or int(text) < 1:
        raise CorruptEpoch(f"{path} holds {text[:40]!r}, not an epoch; remove it only if no other shard has this id")
    return int(text)


def write_durably(path: Path, text: str) -> None:
    """Replace a file so that a crash leaves the old text or the new one, never a part."""
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

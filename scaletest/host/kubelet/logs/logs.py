"""Container logs on disk: where they are, how they are read and followed, how they are kept from growing for ever."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import structlog

from bigfleet.kube import Object

_MAX_BYTES = 20 * 1024 * 1024
_TRIM_SECONDS = 10.0
_FOLLOW_SECONDS = 0.2
_BLOCK = 64 * 1024

log = structlog.get_logger(__name__)


def container_log(pod_logs_dir: Path, pod: Object, container: str, attempt: int) -> Path:
    """The log of the `attempt`-th run (from 0) of a container, in the kubelets' layout."""
    return pod_logs(pod_logs_dir, pod) / container / f"{attempt}.log"


def pod_logs(pod_logs_dir: Path, pod: Object) -> Path:
    """The directory of all logs of a pod."""
    metadata = pod["metadata"]
    return pod_logs_dir / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"


def last_words(path: Path, max_bytes: int = 4096) -> str:
    """The end of a file that a container wrote; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - max_bytes, 0))
        return file.read().decode(errors="replace")


def open_log(path: Path) -> BinaryIO:
    """Open a new log for appending and drop the one before the previous: `logs --previous` needs only that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f"{int(path.stem) - 2}.log").unlink(missing_ok=True)
    return path.open("ab")


async def keep_trimmed(directory: Path) -> None:
    """Cut every log below `directory` that outgrows its limit, for ever."""
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        try:
            for path in directory.rglob("*.log"):
                trim(path)
        except OSError as error:
            log.warning("log not trimmed", error=str(error))


def trim(path: Path, max_bytes: int = _MAX_BYTES) -> None:
    """Move the content of an oversized log to `<name>.1` and start afresh.

    The writer keeps its descriptor, which appends, so the file is emptied in place; what it writes between copy and
    cut is lost.
    """
    if path.stat().st_size > max_bytes:
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)


def tail_offset(file: BinaryIO, lines: int) -> int:
    """Where the last `lines` lines of a file begin."""
    position = file.seek(0, os.SEEK_END)
    wanted = lines + 1  # the newline that ends the line before them
    skip_final = True
    while position > 0:
        size = min(_BLOCK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        end = len(block)
        if skip_final:
            skip_final = False
            if not block.endswith(b"\n"):
                wanted -= 1
        while wanted and (end := block.rfind(b"\n", 0, end)) >= 0:
            wanted -= 1
        if not wanted:
            return position + end + 1
    return 0


def line_start(file: BinaryIO, offset: int) -> int:
    """Where the line begins that the byte at `offset` belongs to."""
    while offset > 0:
        begin = max(offset - _BLOCK, 0)
        file.seek(begin)
        newline = file.read(offset - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        offset = begin
    return 0


async def read_log(
    path: Path, *, tail_lines: int | None, follow: bool, is_running: Callable[[], bool], since: int = 0
) -> AsyncIterator[tuple[int, bytes]]:
    """The content of a log from the line at offset `since` on, in blocks with their offsets.

    With `follow`, until the container has ended and everything has been read.
    """
    with path.open("rb") as file:
        begin = line_start(file, since)
        file.seek(max(begin, tail_offset(file, tail_lines)) if tail_lines is not None else begin)
        while True:
            still_running = is_running()
            while block := file.read(_BLOCK):
                yield file.tell() - len(block), block
            if not (follow and still_running):
                return
            if path.stat().st_size < file.tell():  # trimmed
                file.seek(0)
            await asyncio.sleep(_FOLLOW_SECONDS)


async def stamped(
    blocks: AsyncIterator[tuple[int, bytes]], moment_of: Callable[[int], datetime]
) -> AsyncIterator[bytes]:
    """Whole lines, each with its moment in front, as `kubectl logs --timestamps` shows them."""
    rest, begin = b"", 0
    async for offset, block in blocks:
        if not rest:
            begin = offset
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield _stamp(moment_of(begin)) + line + b"\n"
            begin += len(line) + 1
    if rest:
        yield _stamp(moment_of(begin)) + rest


def _stamp(moment: datetime) -> bytes:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode()

"""A crash-safe file of frames: each is on disk whole, or it is as if it had never been written.

One file per generation. It starts with a magic number and a salt; a frame is its length, a checksum over salt, length
and payload, and the payload. A frame is only written after the one before it is on disk, so a bad frame at the end is
what a crash left of an unfinished write and is cut off, while a bad frame with a good one behind it is damage.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.process.files import lock

_MAGIC = b"BFPJ0001"
_SALT_BYTES = 8
_START = len(_MAGIC) + _SALT_BYTES
_FRAME = struct.Struct(">4sII")
_FRAME_MAGIC = b"\xf5BFf"
_NAME = re.compile(r"journal-(\d{10})")
_DRAFT = "journal.new"


class StorageError(BigFleetError):
    """State on disk that cannot be used, or a disk that does not take it."""

    exit_code = ExitStatus.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Journal:
    """The newest generation in a directory, locked against a second process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._lock = lock(directory)
        self._file = -1
        self._salt = b""
        self.size = 0
        (directory / _DRAFT).unlink(missing_ok=True)
        generations = sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))
        for stale in generations[:-1]:
            stale.unlink()  # a crash came between the new generation and the end of the old one
        self._path = generations[-1] if generations else None

    def read(self) -> list[bytes]:
        """All frames of the newest generation; call it once, before the first write."""
        if self._path is None:
            return []
        frames, self._salt, self.size = _scan(self._path)
        self._file = os.open(self._path, os.O_WRONLY)
        os.ftruncate(self._file, self.size)
        os.lseek(self._file, self.size, os.SEEK_SET)
        return frames

    @property
    def empty(self) -> bool:
        return self._path is None

    def append(self, payload: bytes) -> None:
        """Return when the frame is on disk."""
        frame = _framed(self._salt, payload)
        _write(self._file, frame)
        os.fdatasync(self._file)
        self.size += len(frame)

    def replace(self, payloads: Iterable[bytes]) -> None:
        """Put a new generation with these frames in the place of the old one, at once."""
        number = int(_NAME.fullmatch(self._path.name)[1]) + 1 if self._path else 1  # type: ignore[index]
        path = self._directory / f"journal-{number:010d}"
        draft = self._directory / _DRAFT
        salt = os.urandom(_SALT_BYTES)
        # It holds bootstrap blobs: for our eyes only.
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        _write(file, _MAGIC + salt)
        size = _START
        for payload in payloads:
            frame = _framed(salt, payload)
            _write(file, frame)
            size += len(frame)
        os.fsync(file)
        draft.replace(path)
        _sync_directory(self._directory)
        old, self._path = self._path, path
        if self._file >= 0:
            os.close(self._file)
        self._file, self._salt, self.size = file, salt, size
        if old:
            old.unlink()

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


def _framed(salt: bytes, payload: bytes) -> bytes:
    return _FRAME.pack(_FRAME_MAGIC, len(payload), _checksum(salt, payload)) + payload


def _checksum(salt: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(salt + struct.pack(">I", len(payload))))


def _write(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _scan(path: Path) -> tuple[list[bytes], bytes, int]:
    """Frames, salt, and where the good part ends."""
    content = path.read_bytes()
    if len(content) < _START or not content.startswith(_MAGIC):
        raise StorageError(f"{path} is not a journal of this version of the provider kit", _DAMAGED)
    salt = content[len(_MAGIC) : _START]
    frames: list[bytes] = []
    offset = _START
    while (payload := _frame_at(content, offset, salt)) is not None:
        frames.append(payload)
        offset += _FRAME.size + len(payload)
    later = content.find(_FRAME_MAGIC, offset + 1)
    while later >= 0:
        # The bytes of a blob or a label cannot pass for a frame: callers do not know the salt.
        if _frame_at(content, later, salt) is not None:
            raise StorageError(f"{path} is damaged at byte {offset}: a good frame follows at byte {later}", _DAMAGED)
        later = content.find(_FRAME_MAGIC, later + 1)
    return frames, salt, offset


_DAMAGED = "restore the directory from a copy, or start with an empty one and the machines as they are now"


def _frame_at(content: bytes, offset: int, salt: bytes) -> bytes | None:
    body = offset + _FRAME.size
    if body > len(content):
        return None
    magic, length, checksum = _FRAME.unpack_from(content, offset)
    if magic != _FRAME_MAGIC or body + length > len(content):
        return None
    payload = content[body : body + length]
    return payload if _checksum(salt, payload) == checksum else None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

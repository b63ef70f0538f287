"""The journal: whatever a crash leaves of it, all that was written whole is there and nothing else is."""

import os
import shutil
from pathlib import Path

import pytest

from bigfleet.process.files import InUse
from bigfleet.provider.kit.journal import Journal, StorageError

FRAMES = [b"first", b"", b"third \x00 with a NUL", b"x" * 300, b"last"]


def written(directory: Path, *payloads: bytes) -> Path:
    """A journal of these frames; its file."""
    journal = Journal(directory)
    journal.replace(payloads[:1])
    for payload in payloads[1:]:
        journal.append(payload)
    journal.close()
    (file,) = directory.glob("journal-*")
    return file


def read(directory: Path) -> list[bytes]:
    journal = Journal(directory)
    try:
        return journal.read()
    finally:
        journal.close()


def sizes(directory: Path) -> list[int]:
    """Where each frame of FRAMES ends in its file."""
    counts = range(1, len(FRAMES) + 1)
    return [written(directory / str(count), *FRAMES[:count]).stat().st_size for count in counts]


def test_a_file_that_ends_at_any_byte_holds_the_frames_that_were_whole(tmp_path: Path) -> None:
    ends = sizes(tmp_path)
    content = written(tmp_path / "whole", *FRAMES).read_bytes()
    for length in range(ends[0], len(content) + 1):
        directory = tmp_path / "cut"
        file = written(directory, b"")
        file.write_bytes(content[:length])
        whole = sum(end <= length for end in ends)
        journal = Journal(directory)
        assert journal.read() == FRAMES[:whole]
        journal.append(b"afterwards")
        journal.close()
        assert read(directory) == [*FRAMES[:whole], b"afterwards"]
        shutil.rmtree(directory)


def test_what_a_crash_wrote_as_garbage_behind_the_last_frame_is_cut_off(tmp_path: Path) -> None:
    file = written(tmp_path, *FRAMES)
    for garbage in (b"\x00" * 5000, os.urandom(5000)):
        with file.open("ab") as end:
            end.write(garbage)
        assert read(tmp_path) == FRAMES


def test_damage_before_a_good_frame_is_not_passed_over(tmp_path: Path) -> None:
    ends = sizes(tmp_path)
    file = written(tmp_path / "whole", *FRAMES)
    content = bytearray(file.read_bytes())
    for place in range(ends[0], ends[-2]):
        damaged = bytearray(content)
        damaged[place] ^= 0x40
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match="is damaged at byte"):
            read(tmp_path / "whole")
    file.write_bytes(b"something else altogether")
    with pytest.raises(StorageError, match="is not a journal"):
        read(tmp_path / "whole")


def test_a_frame_inside_a_torn_frame_is_not_taken_for_one(tmp_path: Path) -> None:
    other = written(tmp_path / "other", b"", b"forged").read_bytes()
    file = written(tmp_path / "real", b"good", b"blob: " + other + b" the end")
    file.write_bytes(file.read_bytes()[:-3])
    assert read(tmp_path / "real") == [b"good"]


def test_a_new_generation_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    old = written(tmp_path, *FRAMES)
    before = old.read_bytes()
    journal = Journal(tmp_path)
    journal.read()
    journal.replace([b"a", b"b"])
    journal.append(b"c")
    journal.close()
    assert not old.exists()

    old.write_bytes(before)  # the crash came before the old one was removed
    (tmp_path / "journal.new").write_bytes(b"half a draft")  # and this one in the middle of the next
    assert read(tmp_path) == [b"a", b"b", b"c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-0000000002", "lock"]


def test_nobody_else_may_read_it_or_write_to_it(tmp_path: Path) -> None:
    file = written(tmp_path / "data", *FRAMES)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    journal = Journal(tmp_path / "data")
    with pytest.raises(InUse, match="belongs to another process that is running"):
        Journal(tmp_path / "data")
    journal.close()
    assert read(tmp_path / "data") == FRAMES

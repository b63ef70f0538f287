"""The ledger's file: whole lines, bounded, appended to, and read back strictly."""

import os
from pathlib import Path

import pytest

from bigfleet.provider.fake.ledger.file import LedgerFile, count_ledger, read_entries


def ledger(path: Path, most_lines: int = 100) -> LedgerFile:
    return LedgerFile(path, lambda: 1234.5678, most_lines)


def test_entries_come_back_in_order_with_their_time(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    file = ledger(path)
    file.write({"call": "Create", "machine": "m-0"})
    file.write({"event": "lost", "machine": "m-0"})
    assert list(read_entries(path)) == [
        {"time": 1234.568, "call": "Create", "machine": "m-0"},
        {"time": 1234.568, "event": "lost", "machine": "m-0"},
    ]
    assert file.size == path.stat().st_size


def test_a_full_file_says_so_once_and_stays_full_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for _ in range(2):
        file = ledger(path, most_lines=3)
        for number in range(5):
            file.write({"event": "ready", "machine": f"m-{number}"})
        file.close()
        assert [entry["event"] for entry in read_entries(path)] == ["ready"] * 3 + ["full"]


def test_a_restart_appends_and_cuts_off_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = ledger(path)
    first.write({"event": "ready"})
    first.close()
    with path.open("ab") as file:
        file.write(b'{"time": 1, "eve')
    second = ledger(path)
    second.write({"event": "departed"})
    assert [entry["event"] for entry in read_entries(path)] == ["ready", "departed"]


def test_a_disk_that_takes_no_more_ends_the_file_and_not_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    file = ledger(path)
    file.write({"event": "ready"})
    kept, size = path.read_bytes(), file.size
    full = os.open("/dev/full", os.O_RDWR)
    try:
        os.dup2(full, file._descriptor)
        for _ in range(3):
            file.write({"event": "lost"})
    finally:
        os.close(full)
    assert (path.read_bytes(), file.size) == (kept, size)


def test_a_ledger_is_counted_by_what_its_lines_are(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    file = ledger(path)
    for entry in ({"call": "Create"}, {"call": "Drain"}, {"event": "ready"}, {"event": "violation"}):
        file.write(entry)
    for event in ("lost", "interrupted", "vanished"):
        file.write({"event": event})
    assert count_ledger(path) == {"lines": 7, "calls": 2, "strikes": 3, "violations": 1}


@pytest.mark.parametrize("damage", [b"{]\n", b"[]\n", b'{"event": "ready"}\n', b'{"time": 1', b"\n"])
def test_a_damaged_line_is_named_and_not_passed_over(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"time": 1, "event": "ready"}\n' + damage)
    with pytest.raises(ValueError, match="line 2 is damaged"):
        count_ledger(path)

"""A snapshot counts as evidence only if all of it can be read again."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scaletest.errors import SnapshotFailed
from scaletest.run.steps.evidence import count_snapshot

_META = json.dumps({"stats": {"numSeries": 3, "numSamples": 12}}).encode()
BLOCK = {"01ABC/meta.json": _META, "01ABC/index": b"i" * 5000, "01ABC/chunks/000001": b"c" * 50_000}


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=0) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_a_whole_snapshot_is_counted(tmp_path: Path) -> None:
    counted = count_snapshot(archive(tmp_path / "snapshot.tar.gz", BLOCK))
    assert (counted["blocks"], counted["series"], counted["samples"]) == (1, 3, 12)


@pytest.mark.parametrize("missing", ["01ABC/index", "01ABC/chunks/000001"])
def test_a_block_without_its_data_is_no_evidence(missing: str, tmp_path: Path) -> None:
    files = {name: data for name, data in BLOCK.items() if name != missing}
    with pytest.raises(SnapshotFailed, match=r"holds no (index|chunks) for its block 01ABC"):
        count_snapshot(archive(tmp_path / "snapshot.tar.gz", files))


def test_an_empty_snapshot_is_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(SnapshotFailed, match="holds no samples"):
        count_snapshot(archive(tmp_path / "snapshot.tar.gz", {}))


@pytest.mark.parametrize("spoil", [lambda data: data[:-20_000], lambda data: data[:-4] + b"beef", lambda _: b"no tar"])
def test_a_damaged_snapshot_is_no_evidence(spoil: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = archive(tmp_path / "snapshot.tar.gz", BLOCK)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(SnapshotFailed, match="cannot be opened again"):
        count_snapshot(path)

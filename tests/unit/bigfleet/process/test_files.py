"""Directories that belong to one process at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bigfleet.process.files import InUse, held


def test_a_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    again = pytest.raises(InUse, match="belongs to another process that is running")
    with held(tmp_path / "data"), again, held(tmp_path / "data"):
        pass
    with held(tmp_path / "data"):
        pass


def test_a_directory_is_free_once_its_owner_was_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time, pathlib; from bigfleet.process.files import held\n"
            "with held(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        env=os.environ,
    )
    assert owner.stdout and owner.stdout.readline() == b"held\n"
    with pytest.raises(InUse), held(tmp_path):
        pass
    owner.kill()
    owner.communicate()
    with held(tmp_path):
        pass

"""Hours of tests that are stopped go on where they were; without the asking they do not run at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaletest.project import PROJECT

CONFTEST = """
from tests.long_mode import LongMode

def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes long")
    config.pluginmanager.register(LongMode(config))
"""
TESTS = """
import os, signal
from pathlib import Path
import pytest

def _note(name):
    with Path("ran.txt").open("a") as file:
        file.write(name + "\\n")

@pytest.mark.long
@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_it(name):
    _note(name)
    if name == "two" and not Path("quiet").exists():
        os.kill(os.getpid(), signal.SIGKILL)

def test_short():
    _note("short")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def attempt(folder: Path, *, wanted: bool = True) -> tuple[str, list[str]]:
    """What pytest prints, and which tests ran."""
    (folder / "ran.txt").write_text("")
    environ = {name: value for name, value in os.environ.items() if name != "SCALETEST_LONG"}
    environ |= {"PYTHONPATH": str(PROJECT)} | ({"SCALETEST_LONG": "1"} if wanted else {})
    command = [sys.executable, "-m", "pytest", "-v", *(["-m", "long"] if wanted else [])]
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    return ended.stdout, (folder / "ran.txt").read_text().split()


def test_what_passed_before_a_kill_is_not_run_again(folder: Path) -> None:
    assert attempt(folder)[1] == ["one", "two"]
    (folder / "quiet").touch()
    screen, ran = attempt(folder)
    assert "1 long tests passed before, 2 to go" in screen
    assert ran == ["two", "three"]
    assert attempt(folder)[1] == ["one", "two", "three"], "all had passed: it begins anew"


def test_nobody_runs_them_by_accident(folder: Path) -> None:
    assert attempt(folder, wanted=False)[1] == ["short"]

"""Kernels: one source, used compiled where `make` has built it and as plain Python everywhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SAY = "from bigfleet.engine import Engine; print(Engine().compiled)"


def run(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_run_as_plain_python_where_nothing_was_built(tmp_path: Path) -> None:
    assert run(_SAY, BIGFLEET_KERNELS="", BIGFLEET_KERNELS_DIR=str(tmp_path)) == "False"
    assert list(tmp_path.iterdir()) == [], "a process that decides never compiles"


def test_a_cache_that_lacks_a_kernel_is_not_used_and_not_completed(tmp_path: Path) -> None:
    where = run(
        "from bigfleet.engine.kernels.home import directory; print(directory())",
        BIGFLEET_KERNELS="",
        BIGFLEET_KERNELS_DIR=str(tmp_path),
    )
    Path(where).mkdir()
    (Path(where) / "complete").touch()
    assert run(_SAY, BIGFLEET_KERNELS="", BIGFLEET_KERNELS_DIR=str(tmp_path)) == "False"
    assert [path.name for path in Path(where).iterdir()] == ["complete"]


@pytest.mark.parametrize("module", ["bigfleet.engine", "scaletest.cli.app", "bigfleet.sim.cli"])
def test_the_compiler_is_not_loaded_before_a_cycle(module: str) -> None:
    assert run(f"import sys, {module}; print('numba' in sys.modules)") == "False"

"""Runs tests on mutated copies of the package: everything else is imported once, then a fork for each mutant, as many
at a time as there are cores.

python -m tests.mutants.runner [part of a name …]      one line per mutant; exit code 1 if one survives
"""

import io
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from enum import Enum
from pathlib import Path

from tests.mutants.mutant import PACKAGE, Mutant, NotApplicable

_LIMIT_SECONDS = 120.0
_TESTS = PACKAGE.parent / "tests"
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--rootdir", str(PACKAGE.parent))


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    # The test could not run at all, or never ended: a mutant must be a mistake that runs.
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"


def prepare() -> None:
    """Import what tests need besides the package, and choose plain Python for the kernels."""
    os.environ["BIGFLEET_KERNELS"] = "plain"
    import pytest

    with redirect_stdout(io.StringIO()):
        pytest.main([*_OPTIONS, "--collect-only", str(_TESTS / "mutants" / "mutant.py")])
    import numpy  # noqa: F401

    if "bigfleet" in sys.modules:
        raise RuntimeError("the package is imported already: no copy of it could be")


@contextmanager
def copied_package() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bigfleet-mutant-") as directory:
        copy = Path(directory) / "bigfleet"
        # With what was compiled before: only the mutated file is compiled again.
        shutil.copytree(PACKAGE, copy)
        yield copy


def fate_of(mutant: Mutant) -> Fate:
    with copied_package() as copy:
        try:
            mutant.apply(copy)
        except NotApplicable:
            return Fate.NOT_APPLICABLE
        return {0: Fate.SURVIVED, 1: Fate.KILLED}.get(exit_code_of_tests([mutant.killer], copy), Fate.BROKEN)


def unmutated_pass(killers: Iterable[str]) -> bool:
    """Whether all of these tests pass on a copy without any mistake."""
    with copied_package() as copy:
        return exit_code_of_tests(sorted(set(killers)), copy) == 0


def exit_code_of_tests(killers: Sequence[str], package: Path) -> int:
    """pytest's exit code in a fork that sees this copy; −1 if it never ends."""
    pid = os.fork()
    if pid == 0:
        code = -1
        try:
            code = _run_tests(killers, package)
        finally:
            os._exit(code if code >= 0 else 99)
    deadline = time.monotonic() + _LIMIT_SECONDS * (1 + len(killers) / 20)
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def _run_tests(killers: Sequence[str], package: Path) -> int:
    import pytest

    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    # The copy must be first: once `bigfleet` is imported from it, its modules come from there too.
    sys.path.insert(0, str(package.parent))
    import bigfleet

    if not str(bigfleet.__file__).startswith(str(package)):
        return 99
    return int(pytest.main([*_OPTIONS, *(f"{_TESTS / killer}" for killer in killers)]))


def main(parts: Sequence[str]) -> int:
    from tests.mutants.table import MUTANTS

    mutants = [mutant for mutant in MUTANTS if not parts or any(part in mutant.name for part in parts)]
    if not mutants:
        print(f"no mutant's name contains {' or '.join(parts)}; there are {len(MUTANTS)} in tests/mutants/table.py")
        return 2
    prepare()
    if not unmutated_pass(mutant.killer for mutant in mutants):
        print("the killers fail on the engine as it is")
        return 1
    killed = 0
    # Forks of what is imported here; they fork in turn.
    with multiprocessing.get_context("fork").Pool() as pool:
        for mutant, fate in zip(mutants, pool.imap(fate_of, mutants), strict=True):
            killed += fate is Fate.KILLED
            if parts or fate is not Fate.KILLED:
                print(f"{fate.value:14} {mutant.name}  by {mutant.killer.rsplit('::', 1)[-1]}", flush=True)
    print(f"{killed} of {len(mutants)} mutants killed, each by the test that is named for it")
    return int(killed < len(mutants))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

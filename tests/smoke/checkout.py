"""Another checkout of this project, with mistakes in its BigFleet: what a user would run who had made them."""

import shutil
import sys
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.mutant import PACKAGE, Mistake

_PROJECT = PACKAGE.parent
_PARTS = ("bigfleet", "scaletest", "chart", "profiles", "substrates", "dashboards")
# What pods run by name, and the runner beside it.
_COMMANDS = ("bigfleet", "scaletest-cluster", "scaletest-runner")


class Checkout:
    """A copy of the sources in an environment of its own, which borrows this one's libraries."""

    def __init__(self, directory: Path, mistakes: Iterable[Mistake]) -> None:
        self.root = directory / "checkout"
        self.package = self.root / "bigfleet"
        for part in _PARTS:
            shutil.copytree(_PROJECT / part, self.root / part, ignore=shutil.ignore_patterns("__pycache__"))
        for mistake in mistakes:
            mistake.apply(self.package)
        self._home = directory / "environment"
        self.python = self._environment(self._home)

    def remove(self) -> None:
        """Leave the directory as it was before."""
        for made in (self.root, self._home):
            shutil.rmtree(made, ignore_errors=True)

    def _environment(self, directory: Path) -> Path:
        """An interpreter that finds the copy first: pods take their commands from beside the interpreter."""
        venv.create(directory, symlinks=True)
        python = directory / "bin" / "python"
        borrowed = sysconfig.get_path("purelib")
        own = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
        (own / "checkout.pth").write_text(f"{self.root}\nimport site; site.addsitedir({borrowed!r})\n")
        for command in _COMMANDS:
            script = (Path(sys.executable).parent / command).read_text()
            target = directory / "bin" / command
            target.write_text(f"#!{python}\n{script.partition(chr(10))[2]}")
            target.chmod(0o755)
        return python

"""A mistake put into a copy of BigFleet; a mutant is one, with the test that must notice it."""

from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "bigfleet"


class NotApplicable(Exception):
    """The source has changed: the mistake's old text is not there exactly once."""


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new` in `file` (below bigfleet/)."""

    file: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """What pytest and the runner call it: the file, and what it says instead."""
        words = " ".join(self.new.split()) or f"no {' '.join(self.old.split())}"
        return f"{Path(self.file).stem}: {words[:70]}"

    def apply(self, package: Path) -> None:
        """Change a copy of the package."""
        path = package / self.file
        source = path.read_text()
        if source.count(self.old) != 1:
            raise NotApplicable(f"{self.old!r} is {source.count(self.old)} times in {self.file}, not once")
        path.write_text(source.replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant(Mistake):
    """A mistake in the engine after which `killer` fails."""

    # A test's node id below tests/.
    killer: str

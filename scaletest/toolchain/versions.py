"""Reading versions: Go's own, and what a binary reports about itself."""

import re
from typing import NamedTuple, Self

_GO = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)|(rc|beta)\d+)?")
# A vendor's suffix (`1.32.4-dispatcher`) makes another version; build metadata (`+g1234567`) does not.
_RELEASE = re.compile(r"\bv?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)")


class GoVersion(NamedTuple):
    """A version of Go, comparable; a release candidate is older than its release."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1.26`, `1.26.8`, `1.27rc1` or the answer of `go version`."""
        found = _GO.search(text)
        if found is None:
            raise ValueError(f"no Go version in {text!r}")
        major, minor, patch, candidate = found.groups()
        return cls(int(major), int(minor), -1 if candidate else int(patch or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" if self.patch >= 0 else f"{self.major}.{self.minor}rc"


def release_in(answer: str) -> str | None:
    """The first release in what a binary prints about its version, without a leading v."""
    found = _RELEASE.search(answer)
    return found[1] if found else None

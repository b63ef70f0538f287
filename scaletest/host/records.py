"""Notes that outlive a command: where they are kept, and which process owns what they describe."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from bigfleet.process.files import write_file
from scaletest.host.owners import Owner

_FILE = "record.json"


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """What has to be found again after a command has ended; private to the user."""
    home = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".local" / "state")
    return Path(home).absolute() / "bigfleet-scaletest"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known without asking; it lies in the directory of the thing that it describes."""

    # Unix seconds.
    since: float
    # The process that ends it; None: it was left up on purpose, and `down` ends it.
    owner: Owner | None
    # What it was brought up for; empty for a bare host.
    run_id: str = ""
    namespace: str = ""

    @property
    def living_owner(self) -> Owner | None:
        return self.owner if self.owner and self.owner.alive else None

    @property
    def is_left(self) -> bool:
        """Whether its owner died before leaving it up on purpose."""
        return self.owner is not None and not self.owner.alive

    def write(self, directory: Path) -> None:
        write_file(directory / _FILE, json.dumps(asdict(self)).encode() + b"\n", mode=0o600)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """None if there is no record, or none that we can read."""
        try:
            document = json.loads((directory / _FILE).read_bytes())
            owner = document.pop("owner")
            return cls(**document, owner=Owner(**owner) if owner else None)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

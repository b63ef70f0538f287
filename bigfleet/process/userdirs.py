"""Where a user keeps what is built once."""

import os
from collections.abc import Mapping
from pathlib import Path

# Where built kernels are, if not in the user's cache directory; images and the embedded host set it.
KERNELS_VARIABLE = "BIGFLEET_KERNELS_DIR"


def kernels_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of all builds of the decision engine's kernels."""
    if home := environ.get(KERNELS_VARIABLE):
        return Path(home)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bigfleet" / "kernels"

"""A run's id, and the folder that its results go to."""

import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from scaletest.errors import UsageError
from scaletest.project import results_home

# What a run writes into its folder, and would write over.
_EVIDENCE = ("summary.json", "events.jsonl", "plan.json", "rendered-values.yaml", "report.html", "junit.xml", "logs")


def make_results_folder(output: Path | None, profile_name: str) -> tuple[str, Path]:
    """The run's id, and a folder of its own for its results."""
    # It is a label's value too. Runs of the same second, from anywhere, may meet on one cluster.
    stamp = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{profile_name}")[:55].rstrip(".-")
    run_id = f"{stamp}-{secrets.token_hex(2)}"
    folder = output or results_home() / run_id
    refuse_results_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"no results can be written to {error.filename}: {error.strerror}") from error
    return run_id, folder


def refuse_results_folder(folder: Path | None) -> None:
    """Raises UsageError if results cannot go there, or would go over others; makes nothing."""
    if folder is None:
        return
    if taken := [name for name in _EVIDENCE if (folder / name).exists()]:
        raise UsageError(f"{folder} has a {taken[0]} already", hint="give --results a folder of its own")
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"no results can be written to {folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"no results can be written to {folder}: {there} may not be written to")

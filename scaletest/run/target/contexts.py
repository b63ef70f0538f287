"""Runs on kube contexts: what is noted about them here, and a copy of how to reach the cluster."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from bigfleet.process.files import write_file
from scaletest.errors import HostError, UsageError
from scaletest.host.records import Record, state_dir


@dataclass(frozen=True, kw_only=True)
class ContextRecord(Record):
    """A run on an existing cluster."""

    context: str


@dataclass(frozen=True)
class ContextRun:
    """Such a run as another command finds it."""

    directory: Path
    record: ContextRecord

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"


def contexts_dir() -> Path:
    return state_dir() / "stages"


def new_context_dir(run_id: str) -> Path:
    """A private directory for a run's notes and keys."""
    directory = contexts_dir() / run_id
    try:
        contexts_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)
    except OSError as error:
        raise HostError(
            f"{error.filename} cannot be made: {error.strerror}",
            hint="set XDG_STATE_HOME to a directory that you can write to",
        ) from error
    return directory


def find_context_runs() -> list[ContextRun]:
    """Every run of this user on a kube context, the oldest first."""
    try:
        directories = list(contexts_dir().iterdir())
    except FileNotFoundError:
        return []
    found = [(path, ContextRecord.read(path)) for path in directories]
    runs = [ContextRun(path, record) for path, record in found if record]
    return sorted(runs, key=lambda run: (run.record.since, run.directory.name))


async def copy_context(kubectl: Path, context: str, target: Path) -> None:
    """Write one context of the user's kubeconfig to a file of our own, with the files that it names inside."""
    process = await asyncio.create_subprocess_exec(
        *(str(kubectl), "config", "view", "--raw", "--minify", "--flatten", f"--context={context}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        raise UsageError(
            f"context {context!r}: {err.decode(errors='replace').strip()}",
            hint="choose one of `kubectl config get-contexts`",
        )
    write_file(target, out, mode=0o600)

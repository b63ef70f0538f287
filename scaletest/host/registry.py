"""Which hosts this user has: one directory each, in one place, with a record in it.

The directory is the host's own, so there is no list beside it that could disagree: it appears before the first process
of a host and is the last thing that goes.
"""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from scaletest.errors import HostError, UsageError
from scaletest.host.janitor import MODULE as JANITOR
from scaletest.host.markers import command_of, hosts_of_processes
from scaletest.host.owners import Owner
from scaletest.host.records import Record, state_dir

DAEMON = "scaletest.host.daemon"
# What a runner says to hostd, so that hostd outlives it.
KEEP = b"keep\n"
# A directory without a record belongs to a host that is just being made, unless it is older than this.
FIRST_STEP_SECONDS = 60


def hosts_dir() -> Path:
    return state_dir() / "hosts"


def new_host() -> tuple[str, Path]:
    """An id that no host has, and where the host is to live."""
    for _ in range(100):
        host_id = secrets.token_hex(4)
        try:
            hosts_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
            (hosts_dir() / host_id).mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise HostError(
                f"no host can live in {error.filename}: {error.strerror}",
                hint="set XDG_STATE_HOME to a directory that you can write to",
            ) from error
        return host_id, hosts_dir() / host_id
    raise HostError(f"{hosts_dir()} has no room for another host")


@dataclass(frozen=True, kw_only=True)
class HostRecord(Record):
    """A host."""

    id: str
    # The control plane's; empty while it starts.
    address: str = ""


@dataclass(frozen=True)
class RegisteredHost:
    """A host as another command finds it."""

    id: str
    directory: Path
    record: HostRecord | None
    # hostd's; None: it is gone.
    daemon: int | None
    # Processes that carry its marker.
    processes: tuple[int, ...] = ()
    # hostd is gone, and its janitor is at work.
    ending: bool = False

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def owner(self) -> Owner | None:
        """The living process that will end it."""
        return self.record.living_owner if self.record else None

    @property
    def is_up(self) -> bool:
        """Whether it can be used: it runs, and its runner lives or left it up on purpose."""
        return self.daemon is not None and bool(self.record and self.record.address) and not self.is_left

    @property
    def is_left(self) -> bool:
        """Whether no process will end it: its runner died, or hostd is gone and no janitor is at work."""
        if self.owner or self.ending:
            return False
        if self.record is None:
            return self.daemon is None and not self._is_a_first_step()
        return self.daemon is None or self.record.is_left

    def _is_a_first_step(self) -> bool:
        try:
            return time.time() - self.directory.stat().st_mtime < FIRST_STEP_SECONDS
        except OSError:
            return False


def find_hosts() -> list[RegisteredHost]:
    """Every host of this user that is written down, the oldest first."""
    try:
        directories = [path for path in hosts_dir().iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    processes = hosts_of_processes()
    found = [_host(path.name, path, processes.get(path.name, [])) for path in directories]
    return sorted(found, key=lambda host: (host.record.since if host.record else 0, host.id))


def find_orphans() -> list[RegisteredHost]:
    """Hosts that are not written down: processes with a marker, but without the hostd and the janitor that end them."""
    written = {host.id for host in find_hosts()}
    found = [
        _host(host_id, hosts_dir() / host_id, pids)
        for host_id, pids in hosts_of_processes().items()
        if host_id not in written
    ]
    return [host for host in found if host.processes and host.daemon is None and not host.ending]


def choose(hosts: list[RegisteredHost], wanted: str, *, what: str = "host", hint: str = "") -> RegisteredHost:
    """The host whose id, or whose run's, begins with `wanted`; the only one, if nothing is wanted."""
    fits = [host for host in hosts if any(name.startswith(wanted) for name in names_of(host))]
    exact = [host for host in hosts if wanted in names_of(host)]
    if len(exact or fits) == 1:
        return (exact or fits)[0]
    if not hosts:
        raise UsageError(f"no {what} is up", hint=hint)
    names = ", ".join(names_of(host)[-1] for host in fits or hosts)
    if fits:
        raise UsageError(f"several are up: {names}", hint="name one of them")
    raise UsageError(f"there is no {what} {wanted!r}", hint=f"choose one of those that are up: {names}")


def refuse_owned(host: RegisteredHost) -> None:
    """Raises UsageError for a host that belongs to a living runner, which will end it."""
    if host.owner and host.record:
        what = f"run {host.record.run_id}" if host.record.run_id else "a command under way"
        raise UsageError(f"host {host.id} belongs to {what}: process {host.owner.pid}", hint="end that with Ctrl-C")


def names_of(host: RegisteredHost) -> list[str]:
    """By what people may call it."""
    return [host.id, *([host.record.run_id] if host.record and host.record.run_id else [])]


def _host(host_id: str, directory: Path, pids: list[int]) -> RegisteredHost:
    commands = {pid: command_of(pid) for pid in pids}
    daemon = next((pid for pid, command in commands.items() if DAEMON in command), None)
    janitor = any(JANITOR in command for command in commands.values())
    return RegisteredHost(
        id=host_id,
        directory=directory,
        record=HostRecord.read(directory),
        daemon=daemon,
        processes=tuple(pids),
        ending=daemon is None and janitor,
    )

"""How a container's command is started: through the launcher, isolated if this machine lets us."""

import errno
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from scaletest.host.kubelet.process import launcher
from scaletest.supervise.spawner import Spawner

log = structlog.get_logger(__name__)

_LAUNCHER = launcher.__file__


@dataclass(frozen=True)
class Isolation:
    """What a command is wrapped in. Without `possible`, it sees the machine's own hosts file and host name."""

    possible: bool

    @classmethod
    async def probe(cls, spawner: Spawner, directory: Path) -> "Isolation":
        """Find out, by trying, whether this user may have namespaces on this machine."""
        hosts = directory / "probe.hosts"
        hosts.touch()
        argv = cls(possible=True).wrap(["true"], hosts=hosts, host_name="probe")
        try:
            code = await spawner.spawn(argv, env={"PATH": os.defpath}, cwd=directory).wait()
        finally:
            hosts.unlink()
        if code != 0:
            log.warning("no namespaces here: names that programs build at run time will not resolve", exit_code=code)
        return cls(possible=code == 0)

    def wrap(self, argv: Sequence[str], *, hosts: Path, host_name: str, stderr: int | None = None) -> list[str]:
        """The command that becomes `argv`. `stderr` is an inherited descriptor, if not the one of the output."""
        given = (str(hosts), host_name) if self.possible else ("", "")
        return [
            *(sys.executable, "-IS", _LAUNCHER, str(os.getpid())),
            *("" if stderr is None else str(stderr), *given),
            *argv,
        ]


def check_executable(command: str, env: Mapping[str, str], cwd: Path) -> None:
    """Raise OSError, in a runtime's words, if there is no such program."""
    if "/" in command:
        found = os.access(cwd / command, os.X_OK)
        problem = "no such file, or not executable"
    else:
        found = shutil.which(command, path=env.get("PATH", os.defpath)) is not None
        problem = "executable file not found in $PATH"
    if not found:
        raise OSError(errno.ENOENT, f'exec: "{command}": {problem}')

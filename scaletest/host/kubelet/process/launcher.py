"""Becomes a container's command, with a hosts file and a host name of its own where the kernel allows it.

A program of its own, run as `python -IS launcher.py`: it imports nothing but the standard library, and what it does to
itself (namespaces, mounts) must not happen to the kubelet. Root takes a mount namespace; another user takes it inside a
user namespace in which the user is still the same user, and loses its privileges there when the command starts.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

CANNOT_EXECUTE = 127
# The launcher's own failure, told apart from the command's by nothing but its rarity: sysexits' "internal error".
CANNOT_ISOLATE = 70

_HOSTS = "/etc/hosts"
_NEW_MOUNTS = 0x00020000
_NEW_HOST_NAME = 0x04000000
_NEW_USER = 0x10000000
_BIND = 0x1000
_PRIVATE_EVERYWHERE = 0x4000 | 1 << 18
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def isolate(hosts: str, host_name: str) -> None:
    """Give this process its own `/etc/hosts` and host name. Raises OSError where that is not allowed."""
    kinds = _NEW_MOUNTS | _NEW_HOST_NAME
    if os.geteuid() != 0 or _libc.unshare(kinds) != 0:
        user, group = os.geteuid(), os.getegid()
        _check(_libc.unshare(kinds | _NEW_USER), "unshare")
        # Without this the kernel takes no group map from an unprivileged process.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount(None, "/", _PRIVATE_EVERYWHERE)
    _mount(hosts, os.path.realpath(_HOSTS), _BIND)
    name = host_name.encode()
    _check(_libc.sethostname(name, len(name)), "sethostname")


def die_with(parent: int) -> None:
    """Bind this process's life to its parent's once more: a new user namespace undoes it."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def _mount(source: str | None, target: str, flags: int) -> None:
    encoded = source.encode() if source else None
    _check(_libc.mount(encoded, target.encode(), None, ctypes.c_ulong(flags), None), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _environment() -> dict[bytes, bytes]:
    """The environment as it was given: Python adds a locale to its own."""
    pairs = (entry.partition(b"=") for entry in Path("/proc/self/environ").read_bytes().split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def main(arguments: Sequence[str]) -> int:
    """`PARENT STDERR HOSTS HOST_NAME COMMAND…`; an empty STDERR or HOSTS leaves that as it is."""
    parent, stderr, hosts, host_name, *argv = arguments
    if stderr:
        os.dup2(int(stderr), 2)
        os.close(int(stderr))
    if os.isatty(0):
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if hosts:
        try:
            isolate(hosts, host_name)
        except OSError as error:
            os.write(2, f"cannot isolate the container: {error}\n".encode())
            return CANNOT_ISOLATE
    die_with(int(parent))
    # Python ignores these, and what is ignored stays so in the command.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, _environment())
    except OSError as error:
        os.write(2, f"cannot execute {argv[0]}: {error.strerror}\n".encode())
    return CANNOT_EXECUTE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

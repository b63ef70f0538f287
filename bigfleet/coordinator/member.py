"""The etcd member that shares this process's fate: a child that dies with us, and whose death ends us."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from bigfleet import childprocess, parentdeath
from bigfleet.security.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY

_STOP_SECONDS = 5.0

log = structlog.get_logger(__name__)


class MemberDied(Exception):
    """The etcd member ended, and the coordinator ends with it."""


@dataclass(frozen=True)
class MemberOptions:
    """One member of the coordinators' etcd."""

    name: str
    data_dir: Path
    binary: str
    client_addr: str
    peer_addr: str
    initial_cluster: str | None
    """`name=host:port,…` of all first members; None: this one alone."""
    tls_dir: Path | None


def etcd_arguments(options: MemberOptions) -> list[str]:
    """The command line of the member."""
    scheme = "https" if options.tls_dir else "http"
    client_url, peer_url = f"{scheme}://{options.client_addr}", f"{scheme}://{options.peer_addr}"
    members = options.initial_cluster or f"{options.name}={options.peer_addr}"
    arguments = {
        "name": options.name,
        "data-dir": str(options.data_dir),
        "listen-client-urls": client_url,
        "advertise-client-urls": client_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": ",".join(_member_url(member, scheme) for member in members.split(",")),
        "initial-cluster-token": "bigfleet-coordinator",
        # A leader's death is noticed in half a second; the members are neighbours (design.md §4).
        "heartbeat-interval": "50",
        "election-timeout": "500",
        "auto-compaction-mode": "revision",
        "auto-compaction-retention": "1000",
        "log-level": "warn",
    }
    if options.tls_dir:
        arguments |= _tls_arguments(options.tls_dir)
    return [f"--{flag}={value}" for flag, value in arguments.items()]


def _tls_arguments(tls_dir: Path) -> dict[str, str]:
    certificate, key = str(tls_dir / CERTIFICATE), str(tls_dir / PRIVATE_KEY)
    return {
        "cert-file": certificate,
        "key-file": key,
        "client-cert-auth": "true",
        # Only this coordinator speaks to its member: the trusted "authority" is its own certificate. The run's CA
        # would let every pod of the run write, and etcd's gateway cannot work with an allowed host name.
        "trusted-ca-file": certificate,
        "peer-cert-file": certificate,
        "peer-key-file": key,
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": str(tls_dir / CA_CERTIFICATE),
        "peer-cert-allowed-hostname": "coordinator.bigfleet",
        # On loopback a peer calls from another address than the one it listens on and is certified for.
        "peer-skip-client-san-verification": "true",
        "tls-min-version": "TLS1.2",
    }


def _member_url(member: str, scheme: str) -> str:
    name, equals, address = member.partition("=")
    if not (name and equals and address):
        raise ValueError(f"initial_cluster: {member!r} is not name=host:port")
    return f"{name}={scheme}://{address}"


@asynccontextmanager
async def running(options: MemberOptions) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the member; stop it, gently first, on the way out."""
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *parentdeath.dying_with_us([options.binary, *etcd_arguments(options)]),
        stdin=asyncio.subprocess.DEVNULL,
    )
    log.info("etcd member started", name=options.name, pid=process.pid, client=options.client_addr)
    try:
        yield process
    finally:
        if process.returncode is None:
            await childprocess.stop(process.send_signal, process.wait, _STOP_SECONDS)


async def fail_when_it_ends(process: asyncio.subprocess.Process) -> None:
    """Wait for the member's end, which is never wanted here."""
    raise MemberDied(f"the etcd member ended with status {await process.wait()}")

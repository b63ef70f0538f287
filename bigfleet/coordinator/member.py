"""The etcd member that shares this process's fate: it dies with us, stops when we hang, and its death ends us."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
import structlog

from bigfleet.coordinator import keeper
from bigfleet.coordinator.etcd_client import SERVER_NAME, Member
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.process import childprocess, parentdeath
from bigfleet.security.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY, IdentityFiles

CLUSTER_TOKEN = "bigfleet-coordinator"
_CLIENT_TLS = "client-tls"
_CLIENT_TLS_LIFETIME = timedelta(days=3650)
_STOP_SECONDS = 5.0
_BEAT_SECONDS = keeper.TICK_SECONDS / 2
# Ten ticks of half a second: longer than a busy machine holds an event loop up, shorter than people wait.
_SILENT_TICKS = 10

log = structlog.get_logger(__name__)


class MemberDied(BigFleetError):
    """The etcd member ended, and the coordinator ends with it."""

    exit_code = ExitStatus.FAILED
    hint = "read the member's last lines above"


@dataclass(frozen=True)
class MemberOptions:
    """One member of the coordinators' etcd."""

    name: str
    data_dir: Path
    """Of the coordinator; the member's own is `etcd` below it."""
    binary: str
    client_addr: str
    peer_addr: str
    """Where it listens for its peers."""
    initial_cluster: str | None
    """`name=host:port,…` of all first members, as others reach them; None: this one alone, where it listens."""
    tls_dir: Path | None

    @property
    def etcd_dir(self) -> Path:
        return self.data_dir / "etcd"

    @property
    def client_tls_dir(self) -> Path | None:
        """Directory of the certificate with which this coordinator, and no other process, reaches its etcd member."""
        return self.data_dir / _CLIENT_TLS if self.tls_dir else None

    @property
    def has_state(self) -> bool:
        """A member of this name ran here before."""
        return any((self.etcd_dir / "member" / "wal").glob("*.wal"))

    @property
    def first_members(self) -> dict[str, str]:
        """The peer URL of each first member, by name."""
        scheme = "https" if self.tls_dir else "http"
        found = {}
        for member in (self.initial_cluster or f"{self.name}={self.peer_addr}").split(","):
            name, equals, address = member.partition("=")
            if not (name and equals and address):
                raise ValueError(f"initial_cluster: {member!r} is not name=host:port")
            found[name] = f"{scheme}://{address}"
        if self.name not in found:
            raise ValueError(f"initial_cluster does not name this coordinator, {self.name!r}")
        return found

    @property
    def peer_url(self) -> str:
        return self.first_members[self.name]


def etcd_arguments(options: MemberOptions, joining: Sequence[Member] = ()) -> list[str]:
    """The command line of the member; `joining` are all members of the running group that it was added to."""
    scheme = "https" if options.tls_dir else "http"
    client_url = f"{scheme}://{options.client_addr}"
    members = options.first_members
    if joining:
        # etcd wants a name for each, which one that was never started does not have yet.
        others = [one for one in joining if options.peer_url not in one.peer_urls]
        members = {one.name or f"{one.id:x}": one.peer_urls[0] for one in others} | {options.name: options.peer_url}
    arguments = {
        "name": options.name,
        "data-dir": str(options.etcd_dir),
        "listen-client-urls": client_url,
        "advertise-client-urls": client_url,
        "listen-peer-urls": f"{scheme}://{options.peer_addr}",
        "initial-advertise-peer-urls": options.peer_url,
        "initial-cluster": ",".join(f"{name}={url}" for name, url in members.items()),
        "initial-cluster-state": "existing" if joining else "new",
        "initial-cluster-token": CLUSTER_TOKEN,
        # A leader's death is noticed in half a second; the members are neighbours.
        "heartbeat-interval": "50",
        "election-timeout": "500",
        "auto-compaction-mode": "revision",
        "auto-compaction-retention": "1000",
        "log-level": "warn",
    }
    if options.tls_dir and options.client_tls_dir:
        arguments |= _tls_arguments(options.tls_dir, options.client_tls_dir)
    return [f"--{flag}={value}" for flag, value in arguments.items()]


def _tls_arguments(tls_dir: Path, client_tls_dir: Path) -> dict[str, str]:
    certificate, key = str(tls_dir / CERTIFICATE), str(tls_dir / PRIVATE_KEY)
    return {
        "cert-file": str(client_tls_dir / CERTIFICATE),
        "key-file": str(client_tls_dir / PRIVATE_KEY),
        "client-cert-auth": "true",
        # Only this coordinator speaks to its member, by a CA of their own: the run's CA would let every pod of the run
        # write, etcd's gateway cannot work with an allowed host name, and a renewed certificate must not lock us out.
        "trusted-ca-file": str(client_tls_dir / CA_CERTIFICATE),
        "peer-cert-file": certificate,
        "peer-key-file": key,
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": str(tls_dir / CA_CERTIFICATE),
        "peer-cert-allowed-hostname": SERVER_NAME,
        # On loopback a peer calls from another address than the one it listens on and is certified for.
        "peer-skip-client-san-verification": "true",
        "tls-min-version": "TLS1.2",
    }


def make_client_tls(options: MemberOptions) -> None:
    """A CA for two: this coordinator and its member. New at every start, so nothing has to be renewed."""
    from bigfleet.security.certificates import CertificateAuthority, Subject

    if options.client_tls_dir is None:
        return
    authority = CertificateAuthority.create(f"member of {options.name}"[:64], _CLIENT_TLS_LIFETIME)
    host = options.client_addr.rpartition(":")[0].strip("[]")
    pair = authority.issue(Subject("coordinator", dns_names=[SERVER_NAME], ip_addresses=[host], serves=True))
    IdentityFiles(pair.certificate, pair.private_key, authority.certificate_pem).write(options.client_tls_dir)


@asynccontextmanager
async def kept() -> AsyncIterator[asyncio.subprocess.Process]:
    """A keeper that awaits its order; on the way out it stops the member, which hands its leadership over.

    Start it before any gRPC: a process with gRPC's threads must not be forked.
    """
    process = await asyncio.create_subprocess_exec(
        *parentdeath.dying_with_us(
            [sys.executable, "-IS", keeper.__file__, str(_SILENT_TICKS), parentdeath.__file__],
        ),
        stdin=asyncio.subprocess.PIPE,
        # Ctrl-C in a terminal is ours to answer, in our order.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            await childprocess.stop(process.send_signal, process.wait, _STOP_SECONDS)


def start(process: asyncio.subprocess.Process, options: MemberOptions, joining: Sequence[Member] = ()) -> None:
    """Have the keeper run the member."""
    options.etcd_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if process.stdin:
        process.stdin.write(msgspec.json.encode([options.binary, *etcd_arguments(options, joining)]) + b"\n")
    log.info("etcd member started", name=options.name, client=options.client_addr)


async def beat(process: asyncio.subprocess.Process) -> None:
    """Tell the keeper that our event loop runs, for ever."""
    while process.stdin:
        with suppress(ConnectionError):  # its end is noticed where it is awaited
            process.stdin.write(b".")
            await process.stdin.drain()
        await asyncio.sleep(_BEAT_SECONDS)


async def fail_when_it_ends(process: asyncio.subprocess.Process) -> None:
    """Wait for the member's end, which is never wanted here."""
    raise MemberDied(f"the etcd member ended with status {await process.wait()}")

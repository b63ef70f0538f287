"""`bigfleet all-in-one`: a coordinator, a shard and a fake provider side by side, for a laptop."""

import asyncio
import ipaddress
import shlex
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import aiohttp
import msgspec
import structlog

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.process import childprocess, daemon
from bigfleet.process.files import held, write_file
from bigfleet.process.parentdeath import dying_with_us
from bigfleet.security.authority import CA_KEY, LEAF_LIFETIME, Authority
from bigfleet.security.identity import Identity, InvalidIdentity

SHARD, PROVIDER, COORDINATOR = "shard-0", "fake", "coordinator-0"
_OUR_NAMES = frozenset({SHARD, PROVIDER, COORDINATOR, "admin", "readonly"})
_CA_LIFETIME = timedelta(days=3650)
# Long before they expire; running servers take renewed certificates up by themselves.
_RENEW_SECONDS = LEAF_LIFETIME.total_seconds() / 3
_POLL_SECONDS = 0.2
_STOP_SECONDS = 10.0
_LAST_PORT = 65_535

_SMALL = {
    "instanceType": "m6i.xlarge",
    "zone": "zone-a",
    "capacityType": "OnDemand",
    "pricePerHour": 0.192,
    "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "58"},
}
_SPOT = _SMALL | {"zone": "zone-b", "capacityType": "Spot", "pricePerHour": 0.07, "interruptionProbability": 0.05}
_METAL = {
    "instanceType": "a3-highgpu-8g",
    "zone": "zone-a",
    "capacityType": "BareMetal",
    "pricePerHour": 0.0,
    "allocatable": {"cpu": "208", "memory": "1872Gi", "nvidia.com/gpu": "8", "pods": "110"},
    "labels": {"topology.bigfleet/rack": "zone-a-rack-1"},
}
FLEET = {
    "kinds": {"small": _SMALL, "spot": _SPOT, "metal": _METAL},
    "machines": [
        {"idPrefix": "spec", "kind": "small", "count": 40, "state": "Speculative"},
        {"idPrefix": "spec", "kind": "spot", "count": 40, "state": "Speculative"},
        {"idPrefix": "idle", "kind": "metal", "count": 4, "state": "Idle"},
    ],
}

log = structlog.get_logger(__name__)


class PartEnded(BigFleetError):
    """One of the parts is no more, so none is."""

    exit_code = ExitStatus.FAILED
    hint = "read its last lines above"


@dataclass(frozen=True)
class AllInOneOptions:
    """One of each, on one address, with a CA of their own."""

    data_dir: Path = Path("bigfleet-data")
    """State, certificates and the default fleet; the next start goes on from it."""
    host: str = "127.0.0.1"
    """What everything listens on: an IPv4 address of this machine."""
    shard_port: int = 7780
    """Of the shard's RPCs."""
    coordinator_port: int = 7790
    """Its etcd takes the next two."""
    provider_port: int = 7800
    """Of the fake provider's RPCs."""
    metrics_offset: int = 1000
    """Each one's metrics are at its port plus this."""
    fleet: Path | None = None
    """JSON file of the provider's machines; None: a small fleet of 84."""
    cluster: tuple[str, ...] = ("laptop",)
    """Names of the clusters whose operators may connect; each gets a certificate."""
    etcd_binary: str = "etcd"
    """Path of etcd, or a name to find on PATH."""
    plaintext: bool = False
    """Without any TLS, and so without any check of the callers."""

    def __post_init__(self) -> None:
        try:
            ipaddress.IPv4Address(self.host)
        except ValueError as error:
            raise ValueError(f"--host: {self.host!r} is not an IPv4 address") from error
        self._check_ports()
        for name in self.cluster:
            if name in _OUR_NAMES:
                raise ValueError(f"--cluster {name}: that is the name of a part of the fleet")
            try:
                Identity("cluster", name)
            except InvalidIdentity as error:
                raise ValueError(f"--cluster: {error}") from error

    @property
    def listeners(self) -> dict[str, int]:
        """Every port that something listens at, by what it is."""
        ports: dict[str, int] = {}
        for part in ("shard", "coordinator", "provider"):
            port = ports[f"the {part} (--{part}-port)"] = getattr(self, f"{part}_port")
            ports[f"the {part}'s metrics (--{part}-port with --metrics-offset)"] = port + self.metrics_offset
        for number, who in enumerate(("peers", "client"), start=1):
            ports[f"etcd's {who} (--coordinator-port + {number})"] = self.coordinator_port + number
        return ports

    def _check_ports(self) -> None:
        taken: dict[int, str] = {}
        for what, port in self.listeners.items():
            if not 0 < port <= _LAST_PORT:
                raise ValueError(f"{what} would be at {port}, and ports go from 1 to {_LAST_PORT}")
            if port in taken:
                raise ValueError(f"{taken[port]} and {what} would both be at port {port}")
            taken[port] = what

    def tls_of(self, name: str) -> Path:
        return self.data_dir / "tls" / name


async def serve(options: AllInOneOptions) -> None:
    """Run all parts until cancelled; the end of one ends all."""
    if shutil.which(options.etcd_binary) is None:
        raise daemon.CannotStart(
            f"there is no {options.etcd_binary!r} here",
            "--etcd-binary PATH; `scaletest-runner tools path etcd` prints one that it has built",
        )
    check_places(options)
    async with AsyncExitStack() as stack:
        stack.enter_context(held(options.data_dir))
        if not options.plaintext:
            issue_all(options)
        children = {}
        for name, arguments in commands(options).items():
            children[name] = await stack.enter_async_context(_child(name, arguments))
        loops = [_fail_when_it_ends(name, child) for name, child in children.items()]
        await daemon.forever(*loops, _announce(options), _renew(options))


def check_places(options: AllInOneOptions) -> None:
    """Check fleet file and ports before anything starts: another run's coordinator would answer as if it were ours."""
    if options.fleet:
        from bigfleet.provider.fake.fleet_file import read_fleet

        read_fleet(options.fleet)
    for what, port in options.listeners.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((options.host, port))
                probe.listen()
            except OSError as error:
                hint = "run `ss -ltnp` to see what listens where, or choose other ports with the --…-port flags"
                raise daemon.CannotStart(
                    f"{what} cannot listen at {options.host}:{port}: {error.strerror}", hint
                ) from error


def commands(options: AllInOneOptions) -> dict[str, list[str]]:
    """The command line of each part, in the order of their start."""
    data, host = options.data_dir, options.host

    def common(name: str, port: int) -> list[str]:
        return [
            f"--listen={host}:{port}",
            f"--metrics-addr={host}:{port + options.metrics_offset}",
            f"--id={name}",
            "--plaintext" if options.plaintext else f"--tls-dir={options.tls_of(name)}",
        ]

    if options.fleet is None:
        fleet = data / "fleet.json"
        write_file(fleet, msgspec.json.format(msgspec.json.encode(FLEET)), mode=0o644)
    else:
        fleet = options.fleet
    coordinator = f"{host}:{options.coordinator_port}"
    return {
        "coordinator": [
            *common(COORDINATOR, options.coordinator_port),
            f"--data-dir={data / 'coordinator'}",
            f"--etcd-binary={options.etcd_binary}",
            f"--etcd-peer-addr={host}:{options.coordinator_port + 1}",
            f"--etcd-client-addr={host}:{options.coordinator_port + 2}",
        ],
        "provider": [
            *common(PROVIDER, options.provider_port),
            f"--fleet={fleet}",
            f"--data-dir={data / 'provider'}",
        ],
        "shard": [
            *common(SHARD, options.shard_port),
            f"--data-dir={data / 'shard'}",
            f"--provider-addr={host}:{options.provider_port}",
            f"--coordinator-addr={coordinator}",
            "--execute-concurrency=16",
            "--coordinator-heartbeat-interval-seconds=2",
        ],
    }


def issue_all(options: AllInOneOptions) -> None:
    """Certificates for every part, for people and for the operators; a CA first, where there is none."""
    ca = options.data_dir / "ca"
    if not (ca / CA_KEY).exists():
        Authority.create("all-in-one", _CA_LIFETIME).save(ca)
    authority = Authority.load(ca)
    for identity in (
        Identity("coordinator", COORDINATOR),
        Identity("provider", PROVIDER),
        Identity("shard", SHARD),
        Identity("admin"),
        Identity("readonly"),
        *(Identity("cluster", name) for name in options.cluster),
    ):
        names = [f"{identity.kind}.bigfleet"] if identity.kind in ("coordinator", "provider", "shard") else []
        files = authority.issue(identity, dns_names=names, ip_addresses=[options.host])
        files.write(options.tls_of(identity.name or identity.kind))


@asynccontextmanager
async def _child(name: str, arguments: list[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *dying_with_us([sys.executable, "-m", "bigfleet.cli", name, *arguments]),
        # Ctrl-C is ours to answer, in our order.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            await childprocess.stop(process.send_signal, process.wait, _STOP_SECONDS)


async def _fail_when_it_ends(name: str, process: asyncio.subprocess.Process) -> None:
    raise PartEnded(f"the {name} ended with {await process.wait()}")


async def _announce(options: AllInOneOptions) -> None:
    """Say once that everything is ready, and how to look at it."""
    ports = (options.coordinator_port, options.provider_port, options.shard_port)
    async with aiohttp.ClientSession() as http:
        for port in ports:
            url = f"http://{options.host}:{port + options.metrics_offset}/readyz"
            while not await _answers(http, url):  # noqa: ASYNC110 (it happens in another process)
                await asyncio.sleep(_POLL_SECONDS)
    who = "--plaintext" if options.plaintext else f"--tls-dir {shlex.quote(str(options.tls_of('admin')))}"
    coordinator = f"{options.host}:{options.coordinator_port}"
    log.info("ready", try_this=f"bigfleetctl --coordinator {coordinator} {who} list-shards")
    await asyncio.get_running_loop().create_future()


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def _renew(options: AllInOneOptions) -> None:
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        if not options.plaintext:
            issue_all(options)
            log.info("certificates renewed")

"""Loopback addresses: one 127.N.0.0/16 network per host, one lasting address per pod name."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from scaletest.components import apiserver, controller_manager, etcd, scheduler
from scaletest.errors import HostError

KUBELET_PORT = 10250
# Bound for the life of a host and never served: the process that holds it owns the network.
CLAIM_PORT = 10248

_SERVED_PORTS = (
    apiserver.PORT,
    etcd.CLIENT_PORT,
    etcd.PEER_PORT,
    controller_manager.PORT,
    scheduler.PORT,
    KUBELET_PORT,
)
_NETWORKS = range(64, 251)
_HOSTS_PER_SUBNET = 254
_POD_SUBNETS = range(1, 128)  # the upper half belongs to Services


@dataclass(frozen=True)
class Network:
    """A loopback /16 that belongs to one host: fixed ports, so two hosts differ in nothing but N."""

    number: int

    @property
    def control_plane(self) -> str:
        return f"127.{self.number}.0.1"

    @property
    def service_range(self) -> str:
        return f"127.{self.number}.128.0/17"

    def pod_address(self, index: int) -> str:
        """The address of the pod that was the `index`-th to be named, counted from 0."""
        subnet, host = divmod(index, _HOSTS_PER_SUBNET)
        if subnet >= len(_POD_SUBNETS):
            raise HostError(f"all {len(_POD_SUBNETS) * _HOSTS_PER_SUBNET} pod addresses of {self} are used")
        return f"127.{self.number}.{_POD_SUBNETS[subnet]}.{host + 1}"

    def __str__(self) -> str:
        return f"127.{self.number}.0.0/16"


@dataclass(frozen=True)
class NetworkClaim:
    """A network and the bound socket that makes it ours; closing the last copy of the socket gives it back.

    A socket rather than a lock file: the kernel grants it to one process of any user, takes it back however
    that process ends, and leaves no file.
    """

    network: Network
    socket: socket.socket


def claim_network(numbers: Iterable[int] = _NETWORKS) -> NetworkClaim:
    """Take the first loopback network on which every port of a host is free."""
    taken: set[int] = set()
    for number in numbers:
        network = Network(number)
        held = _bind(network.control_plane, CLAIM_PORT, shared=False)
        if held is None:
            continue
        busy = {port for port in _SERVED_PORTS if not _is_free(network.control_plane, port)}
        if not busy:
            return NetworkClaim(network, held)
        taken |= busy
        held.close()
    if taken:
        ports = ", ".join(map(str, sorted(taken)))
        raise HostError(
            f"port {ports} is taken on every loopback network",
            hint=f"another program listens on 0.0.0.0:{min(taken)}; stop it, or let it bind one address only",
        )
    raise HostError("every loopback network belongs to a running host", hint="stop hosts that you no longer need")


def _is_free(address: str, port: int) -> bool:
    # Shared, as Go binds: connections of a former host that linger in TIME_WAIT are no obstacle, a listener is.
    probe = _bind(address, port, shared=True)
    if probe:
        probe.close()
    return probe is not None


def _bind(address: str, port: int, *, shared: bool) -> socket.socket | None:
    candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(shared))
    try:
        candidate.bind((address, port))
    except OSError:
        candidate.close()
        return None
    return candidate


@dataclass
class PodAddresses:
    """One address per `namespace/name` for the host's life, so a peer can be addressed before it exists."""

    network: Network
    _by_pod: dict[str, str] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _next: int = 0

    def of(self, key: str) -> str:
        """The address of the pod `namespace/name`, chosen at the first call."""
        while key not in self._by_pod:
            candidate = self.network.pod_address(self._next)
            self._next += 1
            if candidate not in self._used:
                self.learn(key, candidate)
        return self._by_pod[key]

    def learn(self, key: str, address: str) -> None:
        """Keep an address that a pod already has."""
        self._by_pod[key] = address
        self._used.add(address)

"""Which address a pod is to use for a peer that it names: the host's answer to DNS."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from bigfleet.kube import Informer, KubeClient, Object, key_of
from bigfleet.kube.resources import SERVICES
from scaletest.components import apiserver
from scaletest.host.addresses import Network, PodAddresses
from scaletest.host.kubelet.network.rewrite import NameTarget, ServiceName
from scaletest.host.kubelet.spec.selectors import has_labels

_MOVED_BY = 20_000
_DOMAIN = "cluster.local"
_LOWEST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


class PodNames:
    """Every address that one pod learns of another goes through `resolve`, so a relay can stand between a pair."""

    def __init__(self, client: KubeClient, network: Network, addresses: PodAddresses) -> None:
        self._network = network
        self._addresses = addresses
        self._pods: Iterable[Object] = ()
        self._headless_in_use: set[str] = set()
        self._diverted: dict[tuple[str, str], str] = {}
        self.services = Informer(client, SERVICES, on_change=lambda _old, _new: self.changed.set())
        # Set whenever an answer may be another than before; the kubelet clears it and passes the change on.
        self.changed = asyncio.Event()

    def know(self, pods: Iterable[Object]) -> None:
        """Where the pods are found from now on."""
        self._pods = pods

    def divert(self, consumer: str, peer: str, address: str) -> None:
        """Have the pod `consumer` find the pod `peer` (both `namespace/name`) at a relay's address.

        Its hosts file says so at once; what is written in its spec follows when its containers start next.
        """
        self._diverted[consumer, peer] = address
        self.changed.set()

    def resolve(self, consumer: Object, name: ServiceName) -> NameTarget | None:
        """What `consumer` is to use for `name`; None if there is nothing behind the name.

        A pod of a Service has an answer before it exists, and always the same. So has a Service as long as it exists:
        `services.py` listens there and connects to a pod that is ready at that moment.
        """
        if name.is_apiserver:
            return NameTarget(self._network.control_plane, {443: apiserver.PORT})
        if name.pod:
            peer = f"{name.namespace}/{name.pod}"
            return NameTarget(self._diverted.get((key_of(consumer), peer)) or self._addresses.of(peer))
        service = self.services.get(f"{name.namespace}/{name.service}")
        if service is None:
            return None
        if service["spec"].get("type") == "ExternalName":
            return NameTarget(service["spec"]["externalName"])
        if is_headless(service) and key_of(service) not in self._headless_in_use:
            self._headless_in_use.add(key_of(service))
            self.changed.set()
        ports = {port["port"] for port in service["spec"].get("ports") or []}
        moved = {port: served_port(port) for port in ports if served_port(port) != port}
        return NameTarget(self._address_of(service), moved)

    def served_at(self, service: Object) -> str | None:
        """Where connections to a Service have to be accepted, or None if no listener is needed."""
        if key_of(service) == "default/kubernetes" or service["spec"].get("type") == "ExternalName":
            return None
        if is_headless(service) and key_of(service) not in self._headless_in_use:
            return None
        return self._address_of(service)

    def ready_pods(self, service: Object) -> list[Object]:
        """The pods that a Service would send a connection to, by name."""
        spec = service["spec"]
        selector = spec.get("selector")
        if not selector:
            return []
        everyone = spec.get("publishNotReadyAddresses", False)
        found = [
            pod
            for pod in self._pods
            if pod["metadata"]["namespace"] == service["metadata"]["namespace"]
            and has_labels(selector, pod["metadata"].get("labels") or {})
            and "deletionTimestamp" not in pod["metadata"]
            and (everyone or _is_ready(pod))
        ]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def environment_of(self, consumer: Object) -> dict[str, str]:
        """The variables by which a container finds the Services that its namespace has when it starts."""
        found: dict[str, str] = {}
        if consumer["spec"].get("enableServiceLinks", True):
            for service in self.services:
                metadata, ports = service["metadata"], service["spec"].get("ports") or []
                if metadata["namespace"] != consumer["metadata"]["namespace"] or is_headless(service) or not ports:
                    continue
                target = self.resolve(consumer, ServiceName(metadata["namespace"], metadata["name"]))
                if target and service["spec"].get("type") != "ExternalName":
                    found |= _links(metadata["name"], target, ports)
        return found

    def host_lines(self, consumer: Object) -> Iterator[tuple[str, list[str]]]:
        """(address, names) pairs for the hosts file of a pod: every Service, and every pod with a name of its own."""
        home = consumer["metadata"]["namespace"]
        for service in sorted(self.services, key=key_of):
            namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
            spellings = _spellings(name, namespace, home)
            if is_headless(service):
                for pod in self.ready_pods(service):
                    peer = self.resolve(consumer, ServiceName(namespace, name, pod["metadata"]["name"]))
                    if peer:
                        yield peer.address, spellings
            elif service["spec"].get("type") != "ExternalName":
                target = self.resolve(consumer, ServiceName(namespace, name))
                if target:
                    yield target.address, spellings
        for pod in sorted(self._pods, key=key_of):
            namespace, spec = pod["metadata"]["namespace"], pod["spec"]
            if spec.get("hostname") and spec.get("subdomain"):
                peer = self.resolve(consumer, ServiceName(namespace, spec["subdomain"], pod["metadata"]["name"]))
                if peer:
                    yield peer.address, _spellings(f"{spec['hostname']}.{spec['subdomain']}", namespace, home)

    def _address_of(self, service: Object) -> str:
        if is_headless(service):
            return self._addresses.of(f"services/{key_of(service)}")
        return str(service["spec"]["clusterIP"])


def presence(pod: Object) -> tuple[object, ...]:
    """All of a pod that an answer can depend on."""
    metadata = pod["metadata"]
    return metadata["uid"], metadata.get("labels"), "deletionTimestamp" in metadata, _is_ready(pod)


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


@cache
def lowest_port() -> int:
    """The lowest port that this user may listen on."""
    return 1 if os.geteuid() == 0 else int(_LOWEST_PORT.read_text())


def served_port(port: int) -> int:
    """Where a Service's port is really served: ports that this user may not open are moved up."""
    return port if port >= lowest_port() else port + _MOVED_BY


def _spellings(name: str, namespace: str, home: str) -> list[str]:
    full = [f"{name}.{namespace}.svc.{_DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*full, name] if namespace == home else full


def _links(name: str, target: NameTarget, ports: list[dict[str, Any]]) -> dict[str, str]:
    prefix = name.upper().replace("-", "_")
    numbers = [str(target.moved_ports.get(port["port"], port["port"])) for port in ports]
    named = {
        f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}": number
        for port, number in zip(ports, numbers, strict=True)
        if port.get("name")
    }
    return {f"{prefix}_SERVICE_HOST": target.address, f"{prefix}_SERVICE_PORT": numbers[0]} | named


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

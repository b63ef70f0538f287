"""Services in user space: accepts connections at a Service's address and carries each to a pod that is ready."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from bigfleet.kube import Object, key_of
from scaletest.host.kubelet.events import Events
from scaletest.host.kubelet.network.names import PodNames, is_headless, served_port
from scaletest.host.kubelet.network.relay import Connection, splice

_CONNECT_SECONDS = 5.0

log = structlog.get_logger(__name__)

Place = tuple[str, int]


@dataclass
class _Listener:
    """One port of a Service, opened or (without a server) found impossible to open."""

    service: str
    port: dict[str, Any]
    server: asyncio.Server | None = None
    connections: set[asyncio.Task[None]] = field(default_factory=set)


class ServiceProxy:
    """Listens wherever a Service is to be reached. Only TCP."""

    def __init__(self, names: PodNames, events: Events) -> None:
        self._names = names
        self._events = events
        self._listeners: dict[Place, _Listener] = {}
        self._turn: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()

    async def adjust(self) -> None:
        """Open and close listeners until they are those of the Services that exist now."""
        wanted = {
            (address, served_port(port["port"])): (service, port)
            for service in self._names.services
            if (address := self._names.served_at(service))
            for port in service["spec"].get("ports") or []
            if self._can_serve(service, port)
        }
        for place in self._listeners.keys() - wanted.keys():
            self._close(self._listeners.pop(place))
        for place, (service, port) in wanted.items():
            known = self._listeners.get(place)
            if known:
                known.service, known.port = key_of(service), port
            else:
                await self._open(place, service, port)

    def close(self) -> None:
        for listener in self._listeners.values():
            self._close(listener)
        self._listeners.clear()

    async def _open(self, place: Place, service: Object, port: dict[str, Any]) -> None:
        listener = _Listener(key_of(service), port)
        # Kept even if it fails: another try would fail as well, and be told again.
        self._listeners[place] = listener
        try:
            listener.server = await asyncio.start_server(partial(self._accept, listener), *place)
        except OSError as error:
            self._tell(service, f"Port {port['port']} is not served: cannot listen on {place[0]}:{place[1]}: {error}")
            return
        if place[1] != port["port"]:
            self._tell(
                service,
                f"Port {port['port']} is served as {place[1]}, because this user may not open it; "
                "names in commands, env and ConfigMaps are rewritten to that",
            )

    @staticmethod
    def _close(listener: _Listener) -> None:
        if listener.server:
            listener.server.close()
        for connection in listener.connections:
            connection.cancel()

    def _can_serve(self, service: Object, port: dict[str, Any]) -> bool:
        if port.get("protocol", "TCP") != "TCP":
            self._tell(service, f"Port {port['port']} is not served: {port['protocol']} is not carried, only TCP is")
            return False
        return True

    async def _accept(self, listener: _Listener, *connection: Any) -> None:
        task = asyncio.current_task()
        if task:
            listener.connections.add(task)
            task.add_done_callback(listener.connections.discard)
        reader, writer = connection
        backend = await self._connect(listener)
        if backend is None:
            writer.transport.abort()  # as a refusal: no ready pod took the connection
            return
        await splice((reader, writer), backend)

    async def _connect(self, listener: _Listener) -> Connection | None:
        service = self._names.services.get(listener.service)
        pods = self._names.ready_pods(service) if service else []
        self._turn[listener.service] += 1
        first = self._turn[listener.service] % len(pods) if pods else 0
        for pod in pods[first:] + pods[:first]:
            port = target_port(listener.port, pod, headless=is_headless(service or {}))
            if port is None:
                continue
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(pod["status"]["podIP"], port)
        return None

    def _tell(self, service: Object, message: str) -> None:
        told = (service["metadata"]["uid"], message)
        if told not in self._told:
            self._told.add(told)
            self._events.record(service, "Warning", "ServicePort", message, about="Service")


def target_port(port: dict[str, Any], pod: Object, *, headless: bool) -> int | None:
    """The port of this pod that a Service's port means; a headless Service does not map ports."""
    if headless:
        return int(port["port"])
    wanted = port.get("targetPort", port["port"])
    if isinstance(wanted, int):
        return wanted
    named = (one for container in pod["spec"]["containers"] for one in container.get("ports") or [])
    return next((one["containerPort"] for one in named if one.get("name") == wanted), None)

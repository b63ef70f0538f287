"""Events on pods and Services, for `kubectl describe` and `kubectl get events`."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from bigfleet.kube import KubeClient, KubeError, Object
from bigfleet.kube.resources import EVENTS
from scaletest.host.credentials import NODE_NAME

EventKind = Literal["Normal", "Warning"]

log = structlog.get_logger(__name__)


def timestamp(moment: datetime | None = None) -> str:
    """A moment, or now, as Kubernetes writes it: RFC 3339 in UTC, whole seconds."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class _Written:
    name: str
    count: int = 1


class Events:
    """Writes Events in the background and in order; one that cannot be written is only logged.

    What is said again about the same object is counted in the Event that said it first.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, dict[tuple[str, str], _Written]] = {}
        self._waiting: list[Callable[[], Awaitable[Any]]] = []
        self._writer: asyncio.Task[None] | None = None

    def record(self, subject: Object, kind: EventKind, reason: str, message: str, *, about: str = "Pod") -> None:
        metadata, now = subject["metadata"], timestamp()
        namespace = metadata["namespace"]
        said = self._known.setdefault(metadata["uid"], {})
        before = said.get((reason, message))
        if before:
            before.count += 1
            again = {"count": before.count, "lastTimestamp": now}
            self._write(lambda: self._client.patch(EVENTS, before.name, again, namespace))
            return
        written = said[reason, message] = _Written(f"{metadata['name']}.{secrets.token_hex(8)}")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": written.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": about,
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": NODE_NAME},
            "reportingComponent": "kubelet",
            "reportingInstance": NODE_NAME,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._write(lambda: self._client.create(EVENTS, event, namespace))

    def forget(self, uid: str) -> None:
        """Nothing more will be said about this object."""
        self._known.pop(uid, None)

    def _write(self, write: Callable[[], Awaitable[Any]]) -> None:
        self._waiting.append(write)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._waiting:
            write = self._waiting.pop(0)
            try:
                await write()
            except KubeError as error:
                log.info("event not written", error=str(error))

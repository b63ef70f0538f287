"""Events on pods, for `kubectl describe` and `kubectl get events`."""

import asyncio
import secrets
from datetime import UTC, datetime
from typing import Literal

import structlog

from bigfleet.kube import KubeClient, KubeError, Object
from bigfleet.kube.resources import EVENTS
from scaletest.host.credentials import NODE_NAME

EventKind = Literal["Normal", "Warning"]

log = structlog.get_logger(__name__)


def timestamp(moment: datetime | None = None) -> str:
    """A moment, or now, as Kubernetes writes it: RFC 3339 in UTC, whole seconds."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Events:
    """Writes Events in the background; one that cannot be written is only logged."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._writing: set[asyncio.Task[None]] = set()

    def record(self, pod: Object, kind: EventKind, reason: str, message: str) -> None:
        metadata, now = pod["metadata"], timestamp()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{secrets.token_hex(8)}", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": NODE_NAME},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        task = asyncio.create_task(self._write(event))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, event: Object) -> None:
        try:
            await self._client.create(EVENTS, event, event["metadata"]["namespace"])
        except KubeError as error:
            log.info("event not written", reason=event["reason"], message=event["message"], error=str(error))

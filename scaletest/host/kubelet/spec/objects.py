"""The API object of one pod, written by the kubelet that runs it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from bigfleet.kube import Conflict, KubeClient, KubeError, NotFound, Object, TooManyRequests, Unreachable
from bigfleet.kube.resources import PODS

_RETRY_SECONDS = 0.5

log = structlog.get_logger(__name__)


class PodObject:
    """Writes that are repeated until the apiserver has taken them, unless the pod is gone or another's by now."""

    def __init__(self, client: KubeClient, pod: Object) -> None:
        metadata = pod["metadata"]
        self._client = client
        self._name: str = metadata["name"]
        self._namespace: str = metadata["namespace"]
        self._uid: str = metadata["uid"]
        self._sent: Object | None = None

    async def write_status(self, status: Object) -> None:
        """Send the status unless it is the one that was sent last."""
        if status == self._sent:
            return
        # The uid is a precondition: a later pod of the same name keeps its own status.
        body = {"metadata": {"uid": self._uid}, "status": status}
        await self._insist(
            lambda: self._client.patch(PODS, self._name, body, self._namespace, "status", kind="strategic")
        )
        self._sent = status

    async def delete(self) -> None:
        """Remove the object: its processes have ended."""
        await self._insist(
            lambda: self._client.delete(PODS, self._name, self._namespace, grace_seconds=0, uid=self._uid)
        )

    async def _insist(self, write: Callable[[], Awaitable[Any]]) -> None:
        while True:
            try:
                await write()
                return
            except (NotFound, Conflict):
                return
            except KubeError as error:
                again = error.status >= 500 or isinstance(error, Unreachable | TooManyRequests)
                log.warning("write failed", pod=f"{self._namespace}/{self._name}", error=str(error), again=again)
                if not again:
                    return
            await asyncio.sleep(_RETRY_SECONDS)

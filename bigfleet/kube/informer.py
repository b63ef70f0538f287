"""A local copy of a collection, kept current by list and watch."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import structlog

from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import Gone, KubeError, TooManyRequests
from bigfleet.kube.resources import Resource

Object = dict[str, Any]
Handler = Callable[[Object | None, Object | None], None]

_RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
# Objects taken over between two breaths of the event loop: some 10 ms of work.
_BATCH = 500

log = structlog.get_logger(__name__)


def key_of(item: Object) -> str:
    """`namespace/name`, or the name alone for cluster-scoped objects."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


class Informer:
    """Lists once, then follows the watch; survives dropped watches, 410s and apiserver restarts.

    `on_change(old, new)` runs in the event loop for each change: old is None for an addition, new is None for
    a deletion. It must not block. `trim` may shrink an object before it is stored.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        on_change: Handler | None = None,
        trim: Callable[[Object], Object] = lambda item: item,
    ) -> None:
        self._client = client
        self._resource = resource
        self._scope: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._on_change = on_change
        self._trim = trim
        self._items: dict[str, Object] = {}
        # Where the watch stands; None asks for a list.
        self._version: str | None = None
        self._watch_spoke = False
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Object]:
        return iter(self._items.values())

    def get(self, key: str) -> Object | None:
        """The object under `namespace/name` (or `name`), if it exists."""
        return self._items.get(key)

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        failures = 0
        while True:
            self._watch_spoke = False
            try:
                if self._version is None:
                    self._version = await self._relist()
                await self._follow(self._version)
            except Gone:
                log.info("watch expired, listing again", resource=self._resource.plural)
                self._version = None
            except KubeError as error:
                log.warning("watch failed", resource=self._resource.plural, error=str(error))
                # A dropped watch is resumed. One that never said anything may belong to an apiserver whose
                # history is not ours (a restore, a new etcd): only a list is safe then.
                if not self._watch_spoke and not isinstance(error, TooManyRequests):
                    self._version = None
            if self._watch_spoke:
                failures = 0
            else:
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    async def _relist(self) -> str:
        items, version = await self._client.list(self._resource, **self._scope)
        listed = {key_of(item) for item in items}
        for key in [key for key in self._items if key not in listed]:
            self._put(key, None)
        for index, item in enumerate(items):
            if index % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
            new = self._trim(item)
            if new != self._items.get(key_of(item)):
                self._put(key_of(item), new)
        self.synced.set()
        return version

    async def _follow(self, version: str) -> None:
        async with aclosing(self._client.watch(self._resource, version=version, **self._scope)) as events:
            async for kind, item in events:
                self._watch_spoke = True
                if kind != "BOOKMARK":
                    self._put(key_of(item), None if kind == "DELETED" else self._trim(item))
                self._version = item["metadata"]["resourceVersion"]

    def _put(self, key: str, new: Object | None) -> None:
        old = self._items.pop(key, None) if new is None else self._items.get(key)
        if new is not None:
            self._items[key] = new
        if self._on_change and (old is not None or new is not None):
            self._on_change(old, new)

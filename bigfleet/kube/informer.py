"""A local copy of a collection, kept current by list and watch."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import structlog

from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import Gone, KubeError, TooManyRequests
from bigfleet.kube.frames import BOOKMARK
from bigfleet.kube.resources import Resource
from bigfleet.kube.store import Index, Store
from bigfleet.kube.subset import Subset

T = TypeVar("T")
S = TypeVar("S", bound=Subset)
Object = dict[str, Any]
Handler = Callable[[T | None, T | None], None]

_RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
# Objects taken over between two breaths of the event loop: some 10 ms of work.
_BATCH = 500

log = structlog.get_logger(__name__)


class InformerOptions(TypedDict, Generic[T], total=False):
    """Which part of a collection is followed, and which function hears of it.

    `on_change(old, new)` runs in the event loop for each change: old is None for an addition, new is None for
    a deletion. It must not block. `indexes` say by what else than its key an object is looked up (`by`).
    """

    namespace: str | None
    labels: str
    fields: str
    on_change: Handler[T]
    indexes: Mapping[str, Index[T]]


def key_of(item: Object) -> str:
    """`namespace/name`, or the name alone for cluster-scoped objects."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


class Follower(ABC, Generic[T]):
    """Lists once, then follows the watch; survives dropped watches, 410s and apiserver restarts."""

    def __init__(
        self, client: KubeClient, resource: Resource, subset: type[Subset] | None, options: InformerOptions[T]
    ) -> None:
        self._client = client
        self._resource = resource
        self._scope: dict[str, Any] = {
            "namespace": options.get("namespace"),
            "labels": options.get("labels", ""),
            "fields": options.get("fields", ""),
            "subset": subset,
        }
        self._on_change = options.get("on_change")
        self._items: Store[T] = Store(options.get("indexes", {}))
        # Where the watch stands; None asks for a list.
        self._version: str | None = None
        self._watch_spoke = False
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def get(self, key: str) -> T | None:
        """The object under `namespace/name` (or `name`), if it exists."""
        return self._items.get(key)

    def by(self, index: str, group: str) -> list[T]:
        """The objects that an index puts into this group."""
        return self._items.by(index, group)

    @abstractmethod
    def _key(self, item: Any) -> str: ...

    @abstractmethod
    def _version_of(self, item: Any) -> str: ...

    @abstractmethod
    def _kept(self, item: Any) -> T:
        """What is stored of an answer's object, whose key and version have been read."""

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
        listed = {self._key(item): item for item in items}
        for key in self._items.keys() - listed.keys():
            self._put(key, None)
        for index, (key, item) in enumerate(listed.items()):
            if index % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
            new = self._kept(item)
            if new != self._items.get(key):
                self._put(key, new)
        self.synced.set()
        return version

    async def _follow(self, version: str) -> None:
        async with aclosing(self._client.watch(self._resource, version=version, **self._scope)) as events:
            async for kind, item in events:
                self._watch_spoke = True
                reached = self._version_of(item)
                if kind != BOOKMARK:
                    self._put(self._key(item), None if kind == "DELETED" else self._kept(item))
                self._version = reached

    def _put(self, key: str, new: T | None) -> None:
        old = self._items.pop(key) if new is None else self._items.put(key, new)
        if self._on_change and (old is not None or new is not None):
            self._on_change(old, new)


class Informer(Follower[Object]):
    """Follows whole objects. `trim` may shrink one before it is stored."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        *,
        trim: Callable[[Object], Object] = lambda item: item,
        **options: Unpack[InformerOptions[Object]],
    ) -> None:
        super().__init__(client, resource, None, options)
        self._trim = trim

    def _key(self, item: Object) -> str:
        return key_of(item)

    def _version_of(self, item: Object) -> str:
        return str(item["metadata"]["resourceVersion"])

    def _kept(self, item: Object) -> Object:
        return self._trim(item)


class TypedInformer(Follower[S]):
    """Follows typed subsets: only the fields that the type names are decoded and stored."""

    def __init__(
        self, client: KubeClient, resource: Resource, subset: type[S], **options: Unpack[InformerOptions[S]]
    ) -> None:
        super().__init__(client, resource, subset, options)

    def learn(self, item: S) -> None:
        """Know what we wrote ourselves, ahead of the watch. `on_change` is not called: the change is our own."""
        self._items.put(item.key, self._kept(item))

    def forget(self, key: str) -> None:
        """Know what we deleted ourselves, ahead of the watch."""
        self._items.pop(key)

    def _key(self, item: S) -> str:
        return item.key

    def _version_of(self, item: S) -> str:
        return item.metadata.resource_version

    def _kept(self, item: S) -> S:
        item.metadata.resource_version = ""
        return item


class TrimmedInformer(Follower[T]):
    """Follows typed subsets and keeps what `trim` makes of each: one small object instead of the parts it came in."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        subset: type[S],
        trim: Callable[[S], T],
        **options: Unpack[InformerOptions[T]],
    ) -> None:
        super().__init__(client, resource, subset, options)
        self._trim = trim

    def _key(self, item: Subset) -> str:
        return item.key

    def _version_of(self, item: Subset) -> str:
        return item.metadata.resource_version

    def _kept(self, item: Any) -> T:
        return self._trim(item)

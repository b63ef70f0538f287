"""An informer of ConfigMaps, and a journal of what it tells."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bigfleet.kube import Informer, KubeClient, Object, ObjectMeta, Subset, TypedInformer
from bigfleet.kube.informer import Follower
from bigfleet.kube.resources import CONFIG_MAPS
from tests.integration.players.apiserver import NAMESPACE


def config_map(name: str, value: str = "", **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


class Labelled(ObjectMeta):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class ConfigMap(Subset):
    """A typed subset of what `config_map` makes."""

    metadata: Labelled
    data: dict[str, str]


class Journal:
    """What an informer's handler was told, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._news = asyncio.Condition()
        self._pending: set[asyncio.Task[None]] = set()

    def on_change(self, old: Object | ConfigMap | None, new: Object | ConfigMap | None) -> None:
        item = new or old or {}
        name = item.metadata.name if isinstance(item, ConfigMap) else item["metadata"]["name"]
        sign = "+" if old is None else "-" if new is None else "~"
        self.entries.append(f"{sign}{name}")
        task = asyncio.ensure_future(self._tell())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: condition(self.entries))
        return self.entries


@asynccontextmanager
async def informer(client: KubeClient, journal: Journal, **scope: Any) -> AsyncIterator[Informer]:
    following = Informer(client, CONFIG_MAPS, namespace=NAMESPACE, labels="test", on_change=journal.on_change, **scope)
    async with running(following):
        yield following


@asynccontextmanager
async def typed_informer(client: KubeClient, journal: Journal, **scope: Any) -> AsyncIterator[TypedInformer[ConfigMap]]:
    following = TypedInformer(
        client, CONFIG_MAPS, ConfigMap, namespace=NAMESPACE, labels="test", on_change=journal.on_change, **scope
    )
    async with running(following):
        yield following


@asynccontextmanager
async def running(following: Follower[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(following.run())
    try:
        await asyncio.wait_for(following.synced.wait(), 20)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])

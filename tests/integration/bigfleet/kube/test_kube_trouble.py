"""bigfleet.kube and a real kube-apiserver in trouble: dropped watches, lost history, refusals, silence, a crash."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from bigfleet.kube import AlreadyExists, Gone, KubeClient, Resource, TooManyRequests
from bigfleet.kube.resources import CONFIG_MAPS
from tests.integration.bigfleet.kube.following import Journal, config_map, informer, typed_informer
from tests.integration.players.apiserver import GUEST, NAMESPACE, ApiServer
from tests.patience import eventually

pytestmark = pytest.mark.integration

FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
PRIORITY_LEVELS = Resource("prioritylevelconfigurations", FLOW_CONTROL, namespaced=False)
FLOW_SCHEMAS = Resource("flowschemas", FLOW_CONTROL, namespaced=False)


class Relay:
    """A TCP relay before an apiserver, whose connections can be cut, and whose new ones can be left waiting."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its URL."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        try:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """Every connection breaks, and who dials again waits for `mend`."""
        self._open.clear()
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._open.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError):
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
            self._writers.add(far_writer)
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


@asynccontextmanager
async def through_a_relay(apiserver: ApiServer) -> AsyncIterator[tuple[KubeClient, Relay]]:
    relay = Relay(apiserver.config.server)
    async with relay.serving() as url, KubeClient(replace(apiserver.config, server=url)) as relayed:
        yield relayed, relay


async def test_a_watch_that_drops_goes_on_where_it_was(kube: KubeClient, apiserver: ApiServer) -> None:
    journal = Journal()
    async with through_a_relay(apiserver) as (relayed, relay), informer(relayed, journal):
        await kube.create(CONFIG_MAPS, config_map("first", test="drop"), NAMESPACE)
        await journal.until(lambda told: "+first" in told)
        relay.cut()
        await kube.create(CONFIG_MAPS, config_map("second", test="drop"), NAMESPACE)
        await kube.delete(CONFIG_MAPS, "first", NAMESPACE)
        relay.mend()
        # In the order in which it happened; a new list would tell of deletions first.
        assert await journal.until(lambda told: "-first" in told) == ["+first", "+second", "-first"]


class Noting(KubeClient):
    """Knows what an informer asked it for: `list`, or the version that a watch went on from."""

    def __init__(self, apiserver: ApiServer, watch_seconds: int) -> None:
        super().__init__(apiserver.config, watch_seconds=watch_seconds)
        self.asked: list[str] = []

    async def list(self, *arguments: Any, **options: Any) -> Any:
        self.asked.append("list")
        return await super().list(*arguments, **options)

    def watch(self, *arguments: Any, version: str, **options: Any) -> AsyncGenerator[tuple[str, Any]]:
        self.asked.append(version)
        return super().watch(*arguments, version=version, **options)


@pytest.mark.parametrize("follow", [informer, typed_informer])
async def test_a_watch_in_which_nothing_happens_is_carried_on_by_bookmarks(
    kube: KubeClient, apiserver: ApiServer, follow: Callable[..., AbstractAsyncContextManager[object]]
) -> None:
    # An apiserver sends a bookmark every minute, and two seconds before it ends a watch.
    async with Noting(apiserver, watch_seconds=5) as client:
        journal = Journal()
        async with follow(client, journal):
            elsewhere = await kube.create(CONFIG_MAPS, config_map("elsewhere", other="yes"), NAMESPACE)
            await kube.delete(CONFIG_MAPS, "elsewhere", NAMESPACE)
            await eventually(lambda: len(client.asked) >= 3)
            asked, first, second = client.asked[:3]
            assert asked == "list"
            reached = int(elsewhere["metadata"]["resourceVersion"])
            assert int(first) < reached <= int(second), "no event of ours told it, and it did not list again"
            await kube.create(CONFIG_MAPS, config_map("late", test="bookmark"), NAMESPACE)
            assert await journal.until(bool) == ["+late"]


async def test_a_watch_whose_history_is_gone_lists_again(kube: KubeClient, apiserver: ApiServer) -> None:
    await kube.create(CONFIG_MAPS, config_map("stays", test="gone"), NAMESPACE)
    journal = Journal()
    async with through_a_relay(apiserver) as (relayed, relay), informer(relayed, journal):
        await kube.create(CONFIG_MAPS, config_map("first", test="gone"), NAMESPACE)
        await journal.until(lambda told: "+first" in told)
        _, version = await kube.list(CONFIG_MAPS, NAMESPACE)
        relay.cut()
        await kube.create(CONFIG_MAPS, config_map("second", test="gone"), NAMESPACE)
        await kube.delete(CONFIG_MAPS, "first", NAMESPACE)
        # A new apiserver knows nothing of what was before it.
        await restart(apiserver)
        with pytest.raises(Gone):
            async for _ in kube.watch(CONFIG_MAPS, NAMESPACE, version=version):
                pass
        relay.mend()
        told = await journal.until(lambda told: "+second" in told and "-first" in told)
        assert told == ["+stays", "+first", "-first", "+second"], "what did not change is not told again"


async def test_who_is_refused_for_load_comes_back_when_there_is_room(kube: KubeClient, apiserver: ApiServer) -> None:
    async with KubeClient(apiserver.guest_config) as guest, one_seat_for_guests(kube, apiserver):

        async def refused() -> TooManyRequests | None:
            try:
                await guest.raw("GET", CONFIG_MAPS.path(NAMESPACE))
            except TooManyRequests as error:
                return error
            return None

        async with taking_the_seat(apiserver):
            refusal = await eventually(refused)
            assert refusal.retry_after_seconds == 1, "as the apiserver asks"
            listing = asyncio.create_task(guest.list(CONFIG_MAPS, NAMESPACE))
            await asyncio.sleep(0.5)
            assert not listing.done()
        _, version = await asyncio.wait_for(listing, 20)
        assert version.isdecimal()


async def test_an_apiserver_that_does_not_answer_holds_nobody_beyond_his_deadline(
    kube: KubeClient, apiserver: ApiServer
) -> None:
    journal = Journal()
    async with informer(kube, journal):
        with apiserver.holding_its_breath(), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await kube.create(CONFIG_MAPS, config_map("patient", test="slow"), NAMESPACE)
        # Whether it did what was asked is unknown until it is asked again; the watch has lost nothing.
        with suppress(AlreadyExists):
            await kube.create(CONFIG_MAPS, config_map("patient", test="slow"), NAMESPACE)
        assert await journal.until(bool) == ["+patient"]


async def test_an_informer_survives_a_crash_of_the_apiserver(kube: KubeClient, apiserver: ApiServer) -> None:
    for name in ("stays", "leaves"):
        await kube.create(CONFIG_MAPS, config_map(name, test="crash"), NAMESPACE)
    journal = Journal()
    async with informer(kube, journal) as following:
        await restart(apiserver)
        await kube.delete(CONFIG_MAPS, "leaves", NAMESPACE)
        await kube.create(CONFIG_MAPS, config_map("comes", test="crash"), NAMESPACE)
        told = await journal.until(lambda told: "+comes" in told and "-leaves" in told)
        assert sorted(told) == ["+comes", "+leaves", "+stays", "-leaves"], "what did not change is not told again"
        assert sorted(item["metadata"]["name"] for item in following) == ["comes", "stays"]


async def restart(apiserver: ApiServer) -> None:
    await asyncio.to_thread(apiserver.stop_apiserver)
    apiserver.launch_apiserver()
    await asyncio.to_thread(apiserver.await_ready)


@asynccontextmanager
async def one_seat_for_guests(kube: KubeClient, apiserver: ApiServer) -> AsyncIterator[None]:
    """The apiserver's own flow control works on one request of the guest at a time, and refuses all others."""
    kind = {"apiVersion": f"{FLOW_CONTROL}/v1", "metadata": {"name": "one-seat"}}
    limit = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    level = {"kind": "PriorityLevelConfiguration", "spec": {"type": "Limited", "limited": limit}}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": GUEST}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["configmaps"], "namespaces": ["*"]}],
    }
    schema = {"priorityLevelConfiguration": {"name": "one-seat"}, "matchingPrecedence": 100, "rules": [rule]}
    await kube.create(PRIORITY_LEVELS, kind | level)
    created = await kube.create(FLOW_SCHEMAS, kind | {"kind": "FlowSchema", "spec": schema})

    async def in_force() -> bool:
        """Each answer says by which schema its request was let in: what its status says may be ahead of that."""
        async with guest_session(apiserver) as (http, url), http.get(url) as answer:
            return bool(answer.headers.get("X-Kubernetes-PF-FlowSchema-UID") == created["metadata"]["uid"])

    try:
        await eventually(in_force)
        yield
    finally:
        for resource in (FLOW_SCHEMAS, PRIORITY_LEVELS):
            await kube.delete(resource, "one-seat")


@asynccontextmanager
async def guest_session(apiserver: ApiServer) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """The guest without our client, and where the ConfigMaps are."""
    config = apiserver.guest_config
    headers = {"Authorization": f"Bearer {config.token}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=config.ssl_context() or True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as http:
        yield http, f"{config.server}{CONFIG_MAPS.path(NAMESPACE)}"


@asynccontextmanager
async def taking_the_seat(apiserver: ApiServer) -> AsyncIterator[None]:
    """A request of the guest whose body never ends."""

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def ask(http: aiohttp.ClientSession, url: str) -> None:
        with suppress(aiohttp.ClientError):
            await http.post(url, data=body())

    async def ask_until_seated() -> None:
        """Whoever asks at the same moment may be seated first, and one who is refused never hears of it: a server
        answers only after the whole request. So another comes, and another."""
        async with guest_session(apiserver) as (http, url), asyncio.TaskGroup() as guests:
            while True:
                guests.create_task(ask(http, url))
                await asyncio.sleep(0.2)

    asking = asyncio.create_task(ask_until_seated())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

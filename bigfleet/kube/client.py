"""Requests to one apiserver: get, list, create, patch, delete, evict, watch."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp
import msgspec
from aiohttp.connector import NEEDS_CLEANUP_CLOSED

from bigfleet.kube.config import KubeConfig
from bigfleet.kube.errors import Gone, KubeError, Unreachable, error_from_status
from bigfleet.kube.frames import Event, Page, event_decoder, page_decoder
from bigfleet.kube.ratelimit import RateLimit
from bigfleet.kube.resources import PODS, Resource
from bigfleet.kube.subset import Subset

Body = Mapping[str, Any]
# The objects of a collection and the resource version to watch from.
Listing = tuple[list[Any], str]

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
# Bookmarks come once a minute; a watch that is silent for two is taken for dead and resumed.
_WATCH_SILENCE_SECONDS = 120
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_WATCH_SILENCE_SECONDS)
# An apiserver that is too busy says when to come back; we do so this often before giving up.
_BUSY_TRIES = 5
_LONGEST_RETRY_SECONDS = 5.0
_TOKEN_LIFE_SECONDS = 10.0
_GOODBYE_SECONDS = 0.05
_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


class KubeClient:
    """An apiserver. Use as an async context manager; one per process and apiserver is enough.

    Every failure is a KubeError; a server that gives no answer is Unreachable. A watch lives for `watch_seconds`, then
    the server ends it and the informer that follows it resumes.
    """

    def __init__(
        self,
        config: KubeConfig,
        *,
        qps: float = 0,
        burst: int = 1,
        user_agent: str = "bigfleet",
        watch_seconds: int = 300,
    ) -> None:
        self._config = config
        self._limit = RateLimit(qps, burst) if qps > 0 else None
        self._user_agent = user_agent
        self._watch_seconds = watch_seconds
        self._http: aiohttp.ClientSession | None = None
        self._token: str | None = None
        self._token_read_at = float("-inf")

    @property
    def server(self) -> str:
        return self._config.server

    async def __aenter__(self) -> Self:
        tls = self._config.ssl_context()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=tls if tls else True, limit=100, enable_cleanup_closed=NEEDS_CLEANUP_CLOSED
            ),
            # Compressing a list costs both ends more than the loopback or cluster network that it travels on.
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=_REQUEST_TIMEOUT,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http:
            await self._http.close()
            self._http = None
            # aiohttp does not wait for connections whose request was cancelled; TLS needs a moment to say goodbye.
            await asyncio.sleep(_GOODBYE_SECONDS)

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, subresource: str | None = None
    ) -> Any:
        return await self._request("GET", resource.path(namespace, name, subresource))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        subset: type[Subset] | None = None,
        page: int = 500,
        from_cache: bool = False,
    ) -> Listing:
        """All objects of a collection, read in pages; as dicts, or as a typed subset.

        `from_cache` takes what the apiserver has in memory, in one piece: cheap, and possibly a moment old.
        """
        path, decode = resource.path(namespace), page_decoder(subset)
        selectors = _selectors(labels, fields)
        if from_cache:
            return await self._list_pages(path, selectors | {"resourceVersion": "0"}, decode)
        try:
            return await self._list_pages(path, selectors | {"limit": str(page)}, decode)
        except Gone:
            # The pages were compacted away under us; one whole answer cannot be.
            return await self._list_pages(path, selectors, decode)

    async def _list_pages(self, path: str, params: dict[str, str], decode: Callable[[bytes], Page[Any]]) -> Listing:
        items: Any = []
        while True:
            answer = await self._request("GET", path, params=params, decode=decode)
            items += answer.items or []
            if not answer.metadata.more:
                return items, answer.metadata.resource_version
            params["continue"] = answer.metadata.more

    async def create(
        self,
        resource: Resource,
        body: Body,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> Any:
        return await self._request("POST", resource.path(namespace, name, subresource), body=body)

    async def replace(
        self, resource: Resource, name: str, body: Body, namespace: str | None = None, subresource: str | None = None
    ) -> Any:
        return await self._request("PUT", resource.path(namespace, name, subresource), body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        kind: Literal["merge", "strategic", "json", "apply"] = "merge",
        field_manager: str | None = None,
        background: bool = False,
    ) -> Any:
        """Patch an object. `apply` is server-side apply and needs a field manager; it creates what is missing.

        `background` lets all other requests of this client go first when the rate limit makes them wait.
        """
        params = {"fieldManager": field_manager} if field_manager else {}
        if kind == "apply":
            params["force"] = "true"
        return await self._request(
            "PATCH",
            resource.path(namespace, name, subresource),
            params=params,
            body=body,
            content_type=_PATCH_TYPES[kind],
            background=background,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete an object. With a `uid`, only the one that has it: another of the same name is a Conflict."""
        options: dict[str, Any] = {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._request("DELETE", resource.path(namespace, name), body=options or None)

    async def evict(self, pod: str, namespace: str) -> None:
        """Ask for a Pod to leave. Raises TooManyRequests while a PodDisruptionBudget refuses."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        # This 429 speaks of the budget, not of the apiserver's load: the caller decides when to ask again.
        await self._request("POST", PODS.path(namespace, pod, "eviction"), body=body, busy_tries=1)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        version: str,
        labels: str = "",
        fields: str = "",
        subset: type[Subset] | None = None,
    ) -> AsyncGenerator[Event]:
        """Events (type, object) after `version`, bookmarks included, until the server ends the watch.

        Raises Gone when `version` is too old: list again.
        """
        params = _selectors(labels, fields) | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds),
        }
        decode = event_decoder(subset)
        try:
            async with self._send("GET", resource.path(namespace), params=params, timeout=_WATCH_TIMEOUT) as response:
                if response.status >= 400:
                    raise error_from_status(response.status, await response.read())
                pending = b""
                async for chunk in response.content.iter_any():
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in lines:
                        yield decode(line)
        except _TRANSPORT_ERRORS as error:
            raise Unreachable(error) from error

    async def raw(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> bytes:
        """The bytes of any path, e.g. `/readyz` or a pod's log."""
        return await self._exchange(method, path, params=params)

    async def ready(self, timeout_seconds: float) -> bool:
        """Whether /readyz answers ok before the time is up."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    try:
                        await self.raw("GET", "/readyz")
                        return True
                    except KubeError:
                        await asyncio.sleep(0.1)
        except TimeoutError:
            return False

    def _send(self, method: str, path: str, **options: Any) -> Any:
        if self._http is None:
            raise RuntimeError("KubeClient is used outside `async with`")
        headers = options.pop("headers", {}) | self._auth()
        return self._http.request(
            method,
            self._config.server + path,
            headers=headers,
            server_hostname=self._config.tls_server_name,
            allow_redirects=False,
            **options,
        )

    def _auth(self) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if now - self._token_read_at >= _TOKEN_LIFE_SECONDS:
            self._token, self._token_read_at = self._config.bearer_token(), now
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        background: bool = False,
        busy_tries: int = _BUSY_TRIES,
        decode: Callable[[bytes], Any] = msgspec.json.decode,
    ) -> Any:
        options: dict[str, Any] = {"params": params}
        if body is not None:
            options |= {"data": msgspec.json.encode(body), "headers": {"Content-Type": content_type}}
        for tries_left in reversed(range(busy_tries)):
            if self._limit:
                await self._limit.take(background=background)
            try:
                return decode(await self._exchange(method, path, **options))
            except msgspec.DecodeError as error:
                raise KubeError(200, "NotJson", f"{method} {path} was not answered in JSON: {error}") from error
            except KubeError as error:
                if error.retry_after_seconds is None or not tries_left:
                    raise
                await asyncio.sleep(min(error.retry_after_seconds, _LONGEST_RETRY_SECONDS))
        raise AssertionError("the last try returns or raises")

    async def _exchange(self, method: str, path: str, **options: Any) -> bytes:
        try:
            async with self._send(method, path, **options) as response:
                payload: bytes = await response.read()
                if response.status < 400:
                    return payload
                retry_after = response.headers.get("Retry-After", "")
        except _TRANSPORT_ERRORS as error:
            raise Unreachable(error) from error
        failure = error_from_status(response.status, payload)
        if retry_after.isdecimal() and (failure.status == 429 or failure.status >= 500):
            failure.retry_after_seconds = float(retry_after)
        raise failure


def _selectors(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in chosen.items() if value}

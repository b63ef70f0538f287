"""Requests to one apiserver: get, list, create, patch, delete, watch."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp
import msgspec

from bigfleet.kube.config import KubeConfig
from bigfleet.kube.errors import KubeError, error_from_status
from bigfleet.kube.ratelimit import RateLimit
from bigfleet.kube.resources import Resource

Body = Mapping[str, Any]

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
# A watch lives this long before the server ends it and we resume; keeps half-dead connections from lasting.
_WATCH_SECONDS = 300
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_WATCH_SECONDS + 30)


class KubeClient:
    """An apiserver. Use as an async context manager; one per process and apiserver is enough."""

    def __init__(self, config: KubeConfig, *, qps: float = 0, burst: int = 1, user_agent: str = "bigfleet") -> None:
        self._config = config
        self._limit = RateLimit(qps, burst) if qps > 0 else None
        self._user_agent = user_agent
        self._http: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        return self._config.server

    async def __aenter__(self) -> Self:
        tls = self._config.ssl_context()
        self._http = aiohttp.ClientSession(
            base_url=self._config.server,
            connector=aiohttp.TCPConnector(ssl=tls if tls else True, limit=100),
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            timeout=_REQUEST_TIMEOUT,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._http:
            await self._http.close()

    async def get(self, resource: Resource, name: str, namespace: str | None = None, subresource: str | None = None) -> Any:
        return await self._request("GET", resource.path(namespace, name, subresource))

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "", page: int = 500
    ) -> tuple[list[Any], str]:
        """All objects of a collection and the resource version to watch from, read in pages."""
        items: list[Any] = []
        params = _selectors(labels, fields) | {"limit": str(page)}
        while True:
            answer = await self._request("GET", resource.path(namespace), params=params)
            items += answer.get("items") or []  # an empty list has `items: null`
            metadata = answer["metadata"]
            if not metadata.get("continue"):
                return items, metadata["resourceVersion"]
            params["continue"] = metadata["continue"]

    async def create(self, resource: Resource, body: Body, namespace: str | None = None, *, name: str | None = None, subresource: str | None = None) -> Any:
        return await self._request("POST", resource.path(namespace, name, subresource), body=body)

    async def replace(self, resource: Resource, name: str, body: Body, namespace: str | None = None, subresource: str | None = None) -> Any:
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
    ) -> Any:
        """Patch an object. `apply` is server-side apply and needs a field manager; it creates what is missing."""
        params = {"fieldManager": field_manager} if field_manager else {}
        if kind == "apply":
            params["force"] = "true"
        return await self._request(
            "PATCH", resource.path(namespace, name, subresource), params=params, body=body, content_type=_PATCH_TYPES[kind]
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, grace_seconds: int | None = None, propagation: str | None = None
    ) -> None:
        options: dict[str, Any] = {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        await self._request("DELETE", resource.path(namespace, name), body=options or None)

    async def watch(
        self, resource: Resource, namespace: str | None = None, *, version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, Any]]:
        """Events (type, object) after `version`, bookmarks included, until the server ends the watch.

        Raises Gone when `version` is too old: list again.
        """
        params = _selectors(labels, fields) | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with self._session.get(
            resource.path(namespace), params=params, headers=self._auth(), timeout=_WATCH_TIMEOUT
        ) as response:
            if response.status >= 400:
                raise error_from_status(response.status, await response.read())
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        raise error_from_status(500, msgspec.json.encode(event["object"]))
                    yield event["type"], event["object"]

    async def raw(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> bytes:
        """The bytes of any path, e.g. `/readyz` or a pod's log."""
        async with self._session.request(method, path, params=params, headers=self._auth()) as response:
            payload = await response.read()
            if response.status >= 400:
                raise error_from_status(response.status, payload)
            return payload

    async def ready(self, timeout_seconds: float) -> bool:
        """Whether /readyz answers ok before the time is up."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        while asyncio.get_running_loop().time() < deadline:
            try:
                await self.raw("GET", "/readyz")
                return True
            except (aiohttp.ClientError, OSError, KubeError):
                await asyncio.sleep(0.1)
        return False

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise RuntimeError("KubeClient is used outside `async with`")
        return self._http

    def _auth(self) -> dict[str, str]:
        token = self._config.bearer_token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None, content_type: str = "application/json"
    ) -> Any:
        if self._limit:
            await self._limit.take()
        headers = self._auth()
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = content_type
        async with self._session.request(method, path, params=params, data=data, headers=headers) as response:
            payload = await response.read()
            if response.status >= 400:
                raise error_from_status(response.status, payload)
            return msgspec.json.decode(payload)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in chosen.items() if value}

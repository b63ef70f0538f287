"""HTTP to the processes of one control plane: their health and their metrics, with the right credentials for each."""

import aiohttp

from scaletest.components import etcd
from scaletest.components.component import Component, Plane


class Endpoints:
    """A client that every process of the plane lets in. Make it when the plane's certificates are there.

    A process that does not answer within `seconds` is taken for one that does not answer.
    """

    def __init__(self, plane: Plane, http: aiohttp.ClientSession, *, seconds: float) -> None:
        self._http = http
        self._timeout = aiohttp.ClientTimeout(total=seconds)
        self._admin = plane.pki.admin().ssl_context()
        self._etcd = plane.pki.etcd_client(plane.url(etcd.CLIENT_PORT)).ssl_context()

    async def healthy(self, component: Component) -> bool:
        """Whether its health endpoint says yes."""
        try:
            await self._read(component, component.health_url)
            return True
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def metrics(self, component: Component) -> str:
        """Its exposition; raises what aiohttp does if it cannot be read."""
        return await self._read(component, component.metrics_url)

    async def _read(self, component: Component, url: str) -> str:
        context = self._etcd if component.name == etcd.NAME else self._admin
        tls = context or True
        async with self._http.get(url, ssl=tls, timeout=self._timeout, raise_for_status=True) as response:
            return await response.text()

"""HTTP to the processes of one control plane: their health and their metrics, with the right credentials for each."""

import ssl
from types import TracebackType
from typing import Self

import aiohttp

from scaletest.cluster.control_plane.commands import Site

_TIMEOUT = aiohttp.ClientTimeout(total=5)


class Endpoints:
    """A client that every process of the site lets in."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._admin = site.pki.admin().ssl_context()
        self._etcd = site.pki.etcd_client(site.etcd_url).ssl_context()

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=_TIMEOUT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def answer(self, url: str) -> bool:
        """Whether a health endpoint says yes."""
        try:
            await self.read(url)
            return True
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def read(self, url: str) -> str:
        async with self._http.get(url, ssl=self._credentials(url), raise_for_status=True) as response:
            return await response.text()

    def _credentials(self, url: str) -> ssl.SSLContext | bool:
        context = self._etcd if url.startswith(self.site.etcd_url) else self._admin
        return context or True

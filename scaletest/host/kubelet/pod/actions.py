"""What a kubelet does to a container from outside: requests, connections and commands, for probes and hooks."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import aiohttp

from scaletest.errors import ScaletestError
from scaletest.host.kubelet.pod.sandbox import Launch
from scaletest.host.kubelet.runtime import Runtime

_OUTPUT_BYTES = 1024
_AT_ONCE = 0.0


class ActionFailed(ScaletestError):
    """An action did not succeed, in words for an Event."""


class Actions:
    """Performs what a probe or a lifecycle hook describes, on one run of a container."""

    def __init__(self, runtime: Runtime, container: Mapping[str, Any], address: str, launch: Launch) -> None:
        self._runtime = runtime
        self._address = address
        self._launch = launch
        self._ports = {port.get("name", ""): port["containerPort"] for port in container.get("ports") or []}

    async def perform(self, action: Mapping[str, Any], seconds: float | None) -> None:
        """Return if it succeeds, raise ActionFailed if not, or if it takes longer than that."""
        try:
            async with asyncio.timeout(seconds):
                if "httpGet" in action:
                    await self._http(action["httpGet"])
                elif "tcpSocket" in action:
                    await self._tcp(action["tcpSocket"])
                elif "sleep" in action:
                    await asyncio.sleep(action["sleep"]["seconds"])
                else:
                    await self._exec(action["exec"]["command"])
        except TimeoutError:
            raise ActionFailed(f"timed out after {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ActionFailed(str(error)) from error

    async def _http(self, target: Mapping[str, Any]) -> None:
        host = target.get("host") or self._address
        path = target.get("path", "/")
        url = f"{target.get('scheme', 'HTTP').lower()}://{host}:{self._port(target['port'])}/{path.lstrip('/')}"
        headers = {header["name"]: header["value"] for header in target.get("httpHeaders") or []}
        # Probes do not verify certificates: a kubelet cannot know the names in them.
        async with self._runtime.http.get(url, headers=headers, ssl=False, allow_redirects=False) as response:
            if not 200 <= response.status < 400:
                raise ActionFailed(f"HTTP status {response.status}")

    async def _tcp(self, target: Mapping[str, Any]) -> None:
        host = target.get("host") or self._address
        _, writer = await asyncio.open_connection(host, self._port(target["port"]))
        writer.close()

    async def _exec(self, command: list[str]) -> None:
        argv = self._launch.command([self._launch.rewriter.apply(part) for part in command])
        output = os.memfd_create("output")
        try:
            process = self._runtime.spawner.spawn(argv, env=self._launch.env, cwd=self._launch.cwd, output=output)
            try:
                code = await process.wait()
            finally:
                await process.stop(_AT_ONCE)
            if code != 0:
                said = os.pread(output, _OUTPUT_BYTES, 0).decode(errors="replace").strip()
                raise ActionFailed(f"command exited with code {code}" + (f": {said}" if said else ""))
        finally:
            os.close(output)

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        if port not in self._ports:
            raise ActionFailed(f"the container has no port named {port}")
        return int(self._ports[port])

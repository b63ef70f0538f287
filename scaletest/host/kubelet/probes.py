"""Startup, readiness and liveness probes of one container run."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.sandbox import Launch

# Until a container is up it is probed at least this often: waiting a whole period would only delay the install.
_EAGER_SECONDS = 0.5


class ProbeFailed(Exception):
    """A check did not succeed, in words for an Event."""


class Checker:
    """Performs the check that a probe describes, once."""

    def __init__(self, runtime: Runtime, container: Mapping[str, Any], address: str, launch: Launch) -> None:
        self._runtime = runtime
        self._address = address
        self._launch = launch
        self._ports = {port.get("name", ""): port["containerPort"] for port in container.get("ports") or []}

    async def check(self, probe: Mapping[str, Any]) -> None:
        """Return if the check succeeds, raise ProbeFailed if not."""
        try:
            async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                if "httpGet" in probe:
                    await self._http(probe["httpGet"])
                elif "tcpSocket" in probe:
                    await self._tcp(probe["tcpSocket"])
                else:
                    await self._exec(probe["exec"]["command"])
        except TimeoutError:
            raise ProbeFailed("timed out") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ProbeFailed(str(error)) from error

    async def _http(self, target: Mapping[str, Any]) -> None:
        host = target.get("host") or self._address
        path = target.get("path", "/")
        url = f"{target.get('scheme', 'HTTP').lower()}://{host}:{self._port(target['port'])}/{path.lstrip('/')}"
        headers = {header["name"]: header["value"] for header in target.get("httpHeaders") or []}
        # Probes do not verify certificates: a kubelet cannot know the names in them.
        async with self._runtime.http.get(url, headers=headers, ssl=False, allow_redirects=False) as response:
            if not 200 <= response.status < 400:
                raise ProbeFailed(f"HTTP status {response.status}")

    async def _tcp(self, target: Mapping[str, Any]) -> None:
        host = target.get("host") or self._address
        _, writer = await asyncio.open_connection(host, self._port(target["port"]))
        writer.close()

    async def _exec(self, command: list[str]) -> None:
        argv = [await self._launch.rewriter.apply(part) for part in command]
        process = self._runtime.spawner.spawn(argv, env=self._launch.env, cwd=self._launch.cwd)
        try:
            code = await process.wait()
        finally:
            await process.stop(grace_seconds=0)
        if code != 0:
            raise ProbeFailed(f"exit code {code}")

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        if port not in self._ports:
            raise ProbeFailed(f"the container has no port named {port}")
        return int(self._ports[port])


async def until_started(checker: Checker, probe: Mapping[str, Any], on_failure: Callable[[str], None]) -> bool:
    """Whether the startup probe succeeded within its failureThreshold × periodSeconds."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    budget = probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10)
    deadline = asyncio.get_running_loop().time() + budget
    while True:
        try:
            await checker.check(probe)
            return True
        except ProbeFailed as failure:
            if asyncio.get_running_loop().time() > deadline:
                on_failure(str(failure))
                return False
        await asyncio.sleep(_EAGER_SECONDS)


async def follow_readiness(checker: Checker, probe: Mapping[str, Any], on_change: Callable[[bool, str], None]) -> None:
    """Report each change of readiness, with the reason of a loss, for ever."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    period = probe.get("periodSeconds", 10)
    ready, was_ready, streak = False, False, 0
    while True:
        succeeded, reason = True, ""
        try:
            await checker.check(probe)
        except ProbeFailed as failure:
            succeeded, reason = False, str(failure)
        streak = streak + 1 if succeeded != ready else 0
        threshold = probe.get("successThreshold", 1) if succeeded else probe.get("failureThreshold", 3)
        if succeeded != ready and streak >= threshold:
            ready, streak = succeeded, 0
            was_ready = was_ready or ready
            on_change(ready, reason)
        await asyncio.sleep(period if was_ready else min(period, _EAGER_SECONDS))


async def until_dead(checker: Checker, probe: Mapping[str, Any]) -> str:
    """Return the reason once the liveness probe has failed failureThreshold times in a row."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    failures = 0
    while True:
        try:
            await checker.check(probe)
            failures = 0
        except ProbeFailed as failure:
            failures += 1
            if failures >= probe.get("failureThreshold", 3):
                return str(failure)
        await asyncio.sleep(probe.get("periodSeconds", 10))

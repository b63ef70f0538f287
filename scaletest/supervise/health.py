"""The health of several processes as one: asked for when a probe asks, so that one that hangs is found out."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

# Below the time-out of every probe.
ASK_SECONDS = 3.0
# A process that has answered before is taken for dead when it is silent for so long.
SILENT_SECONDS = 60.0
# One that never has is starting until then: an overloaded machine takes its time.
START_SECONDS = 300.0


@dataclass
class Vitals:
    """What is known of one process that runs."""

    # When it started, or answered last.
    heard: float
    has_answered: bool = False

    def note(self, answers: bool, now: float) -> None:
        if answers:
            self.heard, self.has_answered = now, True

    def silent_seconds(self, now: float) -> float:
        return now - self.heard

    def ready(self, now: float) -> bool:
        """Whether it answered just now, or may still be starting."""
        return self.silent_seconds(now) <= (0 if self.has_answered else START_SECONDS)

    def alive(self, now: float) -> bool:
        return self.silent_seconds(now) <= (SILENT_SECONDS if self.has_answered else START_SECONDS)


class SupervisorHealth:
    """Serves /readyz and /healthz; both ask /healthz of every process that was started."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._urls: dict[str, str] = {}
        self._vitals: dict[str, Vitals] = {}
        # Nothing is ready before its supervisor says so.
        self.ready = False

    def started(self, name: str, address: str) -> None:
        """From now on this process has to answer at `host:port`."""
        self._urls[name] = f"http://{address}/healthz"
        self._vitals[name] = Vitals(asyncio.get_running_loop().time())

    async def serve(self, address: str) -> web.AppRunner:
        """Answer probes at `host:port`; call `cleanup()` on the result to stop."""
        app = web.Application()
        app.add_routes([web.get("/readyz", self._readyz), web.get("/healthz", self._healthz)])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        host, _, port = address.rpartition(":")
        await web.TCPSite(runner, host, int(port)).start()
        return runner

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self.ready:
            return web.Response(status=503, text="starting")
        return await self._judge(Vitals.ready)

    async def _healthz(self, _: web.Request) -> web.Response:
        return await self._judge(Vitals.alive)

    async def _judge(self, well: Callable[[Vitals, float], bool]) -> web.Response:
        names = list(self._urls)
        answers = await asyncio.gather(*(self._answers(self._urls[name]) for name in names))
        now = asyncio.get_running_loop().time()
        for name, answered in zip(names, answers, strict=True):
            self._vitals[name].note(answered, now)
        silent = [
            f"{name} has not answered for {vitals.silent_seconds(now):.0f} s"
            for name, vitals in self._vitals.items()
            if not well(vitals, now)
        ]
        return web.Response(status=503, text="; ".join(silent)) if silent else web.Response(text="ok")

    async def _answers(self, url: str) -> bool:
        try:
            async with self._http.get(url, timeout=aiohttp.ClientTimeout(total=ASK_SECONDS)) as response:
                return response.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

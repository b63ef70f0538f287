"""What every BigFleet process shares: logs, metrics and health on one port, a clean stop on a signal."""

import asyncio
import errno
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.process.figures import show_process_figures

# The metrics address that switches metrics off.
NOWHERE = "0"

_OF_THE_PLACE = frozenset(
    {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EROFS}
)
# An overloaded process wakes up late; the self-check reads this.
_LAG_SAMPLE_SECONDS = 0.25


class CannotStart(BigFleetError):
    """Something that the process needs is missing, or another process has it."""

    exit_code = ExitStatus.WRONG_USE

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bucket bounds from `start`, each `factor` times the one before."""
    return tuple(start * factor**index for index in range(count))


def configure_logging(process: str) -> None:
    """One line per event on stdout: time, level, process, event, key=value pairs."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "process", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


async def _nothing_to_do() -> None:
    pass


async def serve_metrics(
    address: str,
    registry: CollectorRegistry,
    ready: Callable[[], bool] = lambda: True,
    refresh: Callable[[], Awaitable[None]] = _nothing_to_do,
    *,
    many: bool = False,
) -> web.AppRunner:
    """Serve /metrics, /healthz and /readyz on `host:port`, or nowhere at `0`; call `cleanup()` on the result to stop.

    `refresh` is awaited before metrics are shown, for those that have to be fetched. `many` series are written out in a
    thread, because a line takes 8 µs; collectors must then be able to stand that.
    """
    show_process_figures(registry)

    async def metrics(_: web.Request) -> web.Response:
        await refresh()
        body = await asyncio.to_thread(generate_latest, registry) if many else generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if ready() else web.Response(status=503, text="not ready")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    if address != NOWHERE:
        host, _, port = address.rpartition(":")
        await web.TCPSite(runner, host or "127.0.0.1", int(port)).start()
    return runner


def port_of(server: web.AppRunner) -> int:
    """Where metrics are served; 0 = nowhere."""
    return server.addresses[0][1] if server.addresses else 0


async def watch_loop_lag(registry: CollectorRegistry) -> None:
    """Record how late the event loop runs, for ever."""
    lag = Histogram(
        "bigfleet_event_loop_lag_seconds",
        "How late a timer of this process fired.",
        buckets=exponential_buckets(0.001, 2, 15),
        registry=registry,
    )
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_SAMPLE_SECONDS
        await asyncio.sleep(_LAG_SAMPLE_SECONDS)
        lag.observe(max(0.0, loop.time() - due))


def run(process: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `main` until it returns or SIGTERM or SIGINT cancels it."""
    import uvloop

    configure_logging(process)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a `_created` series beside every counter would double what Prometheus keeps

    async def until_signalled() -> None:
        task = asyncio.ensure_future(main())
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()

        def stop() -> None:
            stopping.set()
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        try:
            await task
        except asyncio.CancelledError:
            if not stopping.is_set():
                raise

    try:
        uvloop.run(until_signalled())
    except Exception as error:
        # An error that knows its exit code is for people to read; any other is ours to debug.
        plain = _first_of_all(error)
        exit_code = ExitStatus.WRONG_USE if _is_of_the_place(plain) else getattr(plain, "exit_code", None)
        if exit_code is None:
            raise
        hint = getattr(plain, "hint", "")
        sys.stderr.write(f"{process}: {plain}\n" + (f"hint: {hint}\n" if hint else ""))
        sys.exit(exit_code)


def _is_of_the_place(error: BaseException) -> bool:
    """Whether a file or an address that we were given is not there, or not ours: that needs no traceback."""
    return isinstance(error, OSError) and error.errno in _OF_THE_PLACE


def _first_of_all(error: BaseException) -> BaseException:
    """What ended a group of tasks, if one error did."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def forever(*awaitables: Awaitable[None]) -> None:
    """Run loops that never end side by side; the failure of one ends all."""
    async with asyncio.TaskGroup() as group:
        for awaitable in awaitables:
            group.create_task(_as_coroutine(awaitable))


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable

"""A way to one port of a pod through its cluster's API: a `kubectl port-forward` of our own, renewed when it ends."""

import asyncio
import re
from collections.abc import Callable, Sequence

from bigfleet.process import childprocess
from bigfleet.process.parentdeath import dying_with_us
from scaletest.errors import HostError

_OPEN_SECONDS = 30
_AGAIN_SECONDS = 1.0
_TERM_SECONDS = 2
_OPENED = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ->")


class PortForward:
    """Held open from `open` to `close`, always at the same address of this machine's loopback.

    kubectl ends when its connection does: a load balancer's idle limit, an apiserver that is replaced, a pod that is.
    It dies with us, so that a killed runner leaves no open door.
    """

    def __init__(self, kubectl: Sequence[str], pod: str, port: int, say: Callable[[str], object]) -> None:
        self._kubectl = kubectl
        self._pod = pod
        self._port = port
        self._say = say
        # kubectl chooses it the first time; from then on it is ours.
        self._local_port = ""
        self._last_words = "no answer"
        self._opened = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def open(self) -> str:
        """`host:port` on this machine."""
        self._holding = asyncio.create_task(self._hold())
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await self._opened.wait()
        except BaseException as error:
            await self.close()
            if not isinstance(error, TimeoutError):
                raise
            raise HostError(
                f"{self._pod}:{self._port} cannot be reached by kubectl port-forward: {self._last_words}",
                hint="name another way to it with --prometheus-url",
            ) from None
        return f"127.0.0.1:{self._local_port}"

    async def close(self) -> None:
        if self._holding:
            self._holding.cancel()
            await asyncio.gather(self._holding, return_exceptions=True)
            self._holding = None

    async def _hold(self) -> None:
        while True:
            await self._forward()
            if self._opened.is_set():
                self._opened.clear()
                self._say(f"the port-forward to {self._pod}:{self._port} ended ({self._last_words}); opening it again")
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _forward(self) -> None:
        """One kubectl, from its start to its end."""
        ports = f"{self._local_port}:{self._port}"
        process = await asyncio.create_subprocess_exec(
            *dying_with_us([*self._kubectl, "port-forward", "--address=127.0.0.1", f"pod/{self._pod}", ports]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if process.stdout is None:
                raise RuntimeError("kubectl has no output")
            async for line in process.stdout:  # a line for each connection, too: unread they would block it
                self._note(line.decode(errors="replace").strip())
        finally:
            await childprocess.stop_group(process, _TERM_SECONDS)

    def _note(self, line: str) -> None:
        if found := _OPENED.match(line):
            self._local_port = found.group(1)
            self._last_words = "without a word"
            self._opened.set()
        elif not line.startswith("Handling connection"):
            self._last_words = line

"""`kubectl exec` and `kubectl port-forward`: commands and connections inside a pod, over SPDY streams."""

import asyncio
import contextlib
import fcntl
import json
import os
import struct
import termios
from http import HTTPStatus
from typing import Any

from bigfleet.process.racing import first_of
from scaletest.host.kubelet.pod.containers import KubeletContainer
from scaletest.host.kubelet.pod.pods import KubeletPod
from scaletest.host.kubelet.pod.sandbox import Launch
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.streams import spdy
from scaletest.host.kubelet.streams.httpserver import HttpRefusal, HttpRequest
from scaletest.supervise.spawner import Process

_EXEC_PROTOCOLS = ("v4.channel.k8s.io",)
_FORWARD_PROTOCOLS = ("portforward.k8s.io",)
_STREAMS_SECONDS = 30.0
_BLOCK = 32 * 1024
_PARTS = {"input": "stdin", "output": "stdout", "error": "stderr"}


async def execute(request: HttpRequest, runtime: Runtime, container: KubeletContainer) -> None:
    """Run a command beside the container's own, connected to the client's streams."""
    launch, command = container.launch, request.query.get("command", [])
    if launch is None or not container.is_running:
        raise HttpRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"container {container.status.name} is not running")
    if not command:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "a command is required")
    tty = request.parameter("tty") == "1"
    wanted = {stream for name, stream in _PARTS.items() if request.parameter(name) == "1"} | {"error"}
    if tty:
        wanted = (wanted - {"stderr"}) | {"resize"}
    await _switch(request, _EXEC_PROTOCOLS)
    streams: dict[str, spdy.Stream] = {}
    complete = asyncio.Event()

    def opened(stream: spdy.Stream) -> None:
        streams[stream.headers.get("streamtype", "")] = stream
        if wanted <= streams.keys():
            complete.set()

    async with _served(request, opened) as connection:
        async with asyncio.timeout(_STREAMS_SECONDS):
            await complete.wait()
        session = _Session(runtime, launch, command, streams, tty=tty)
        ran, _ = await first_of(session.run(), connection)
        if ran:
            with contextlib.suppress(OSError):
                ran.result()


class _Session:
    """A command and the streams of the client that asked for it."""

    def __init__(
        self, runtime: Runtime, launch: Launch, command: list[str], streams: dict[str, spdy.Stream], *, tty: bool
    ) -> None:
        self._runtime = runtime
        self._launch = launch
        self._command = command
        self._streams = streams
        self._tty = tty

    async def run(self) -> None:
        try:
            code = await (self._run_in_terminal() if self._tty else self._run_with_pipes())
            result = _result(code)
        except OSError as error:
            result = {
                "status": "Failure",
                "reason": "InternalError",
                "code": 500,
                "message": error.strerror or str(error),
            }
        await self._streams["error"].write(json.dumps({"metadata": {}, **result}).encode())
        for stream in self._streams.values():
            await stream.close()

    async def _run_with_pipes(self) -> int:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        theirs = (stdin[0], stdout[1], stderr[1])
        try:
            process = self._spawn(stdin=stdin[0], output=stdout[1], stderr=stderr[1])
        except OSError:
            for descriptor in (stdin[1], stdout[0], stderr[0]):
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return await self._carry(process, stdin[1], {"stdout": stdout[0], "stderr": stderr[0]})

    async def _run_in_terminal(self) -> int:
        ours, theirs = os.openpty()
        try:
            process = self._spawn(stdin=theirs, output=theirs, stderr=None)
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        resizing = asyncio.create_task(self._resize(os.dup(ours)))
        try:
            return await self._carry(process, os.dup(ours), {"stdout": ours})
        finally:
            resizing.cancel()

    def _spawn(self, *, stdin: int, output: int, stderr: int | None) -> Process:
        argv = [self._launch.rewriter.apply(part) for part in self._command]
        return self._runtime.spawner.spawn(
            self._launch.command(argv, stderr=stderr),
            env=self._launch.env | ({"TERM": "xterm"} if self._tty else {}),
            cwd=self._launch.cwd,
            stdin=stdin,
            output=output,
            inherit=() if stderr is None else (stderr,),
        )

    async def _carry(self, process: Process, stdin: int, outputs: dict[str, int]) -> int:
        """Carry bytes both ways until the command has ended and all it said is sent; its exit code."""
        feeding = asyncio.create_task(self._feed(stdin))
        try:
            async with asyncio.TaskGroup() as group:
                for name, descriptor in outputs.items():
                    group.create_task(self._drain(descriptor, self._streams.get(name)))
            return await process.wait()
        finally:
            feeding.cancel()
            await process.stop(grace_seconds=0)

    async def _feed(self, descriptor: int) -> None:
        """Give the command what the client types, and the end of it."""
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(descriptor, "wb", buffering=0)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        try:
            stream = self._streams.get("stdin")
            with contextlib.suppress(OSError):
                while stream and (block := await stream.reader.read(_BLOCK)):
                    writer.write(block)
                    await writer.drain()
        finally:
            transport.close()

    @staticmethod
    async def _drain(descriptor: int, stream: spdy.Stream | None) -> None:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        try:
            # A terminal whose last user has gone ends with an error, a pipe with nothing.
            with contextlib.suppress(OSError):
                while block := await reader.read(_BLOCK):
                    if stream:
                        await stream.write(block)
        finally:
            transport.close()

    async def _resize(self, terminal: int) -> None:
        try:
            stream = self._streams.get("resize")
            while stream and (line := await stream.reader.readline()):
                size = json.loads(line)
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        finally:
            os.close(terminal)


async def forward(request: HttpRequest, pod: KubeletPod) -> None:
    """Carry the client's connections to ports of a pod."""
    await _switch(request, _FORWARD_PROTOCOLS)
    halves: dict[str, dict[str, spdy.Stream]] = {}
    carrying: set[asyncio.Task[None]] = set()

    def opened(stream: spdy.Stream) -> None:
        pair = halves.setdefault(stream.headers.get("requestid", ""), {})
        pair[stream.headers.get("streamtype", "")] = stream
        if {"data", "error"} <= pair.keys():
            task = asyncio.create_task(_carry(pod, pair["data"], pair["error"]))
            carrying.add(task)
            task.add_done_callback(carrying.discard)

    async with _served(request, opened) as connection:
        await connection
        for task in carrying:
            task.cancel()


async def _carry(pod: KubeletPod, data: spdy.Stream, errors: spdy.Stream) -> None:
    port = int(data.headers["port"])
    try:
        reader, writer = await asyncio.open_connection(pod.address, port)
    except OSError as error:
        await errors.write(f"error forwarding port {port} to pod {pod.key}: {error}".encode())
        for stream in (errors, data):
            await stream.close()
        return
    sending = asyncio.create_task(_send(data, writer))
    try:
        with contextlib.suppress(OSError):
            while block := await reader.read(_BLOCK):
                await data.write(block)
        for stream in (data, errors):
            await stream.close()
    finally:
        sending.cancel()
        writer.close()


async def _send(data: spdy.Stream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await data.reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()
        writer.write_eof()


@contextlib.asynccontextmanager
async def _served(request: HttpRequest, opened: Any) -> Any:
    """The task that reads the client's frames; it ends when the client leaves."""
    connection = asyncio.create_task(spdy.SpdyConnection(request.reader, request.writer, opened).run())
    try:
        yield connection
    finally:
        connection.cancel()
        await asyncio.gather(connection, return_exceptions=True)


async def _switch(request: HttpRequest, protocols: tuple[str, ...]) -> None:
    if spdy.PROTOCOL.lower() not in (value.lower() for value in request.values("upgrade")):
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"only {spdy.PROTOCOL} is spoken here")
    offered = request.values("x-stream-protocol-version")
    chosen = next((one for one in offered if one in protocols), None)
    if chosen is None:
        raise HttpRefusal(
            HTTPStatus.FORBIDDEN, f"none of {', '.join(offered)} is spoken here, only {', '.join(protocols)}"
        )
    await request.switch(spdy.PROTOCOL, f"X-Stream-Protocol-Version: {chosen}")


def _result(code: int) -> dict[str, Any]:
    if code == 0:
        return {"status": "Success"}
    shown = 128 - code if code < 0 else code
    return {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {shown}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(shown)}]},
    }

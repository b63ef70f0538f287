"""A small HTTP/1.1 server: one request per connection, which its handler may answer, stream to, or take over.

The kubelet's only client is the apiserver, and its exec and port-forward turn a connection into something that is no
HTTP (SPDY), which the usual servers do not let out of their hands.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

import structlog

from bigfleet.process.racing import first_of
from scaletest.errors import ScaletestError

_MAX_HEAD_BYTES = 64 * 1024
_HEAD_SECONDS = 30.0

log = structlog.get_logger(__name__)


class HttpRefusal(ScaletestError):
    """An answer that is an error."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class HttpRequest:
    """What was asked, and the connection that it was asked on."""

    method: str
    path: list[str]
    query: dict[str, list[str]]
    # Names in lower case; a name that came several times has several values.
    headers: dict[str, list[str]]
    client_name: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def parameter(self, name: str) -> str | None:
        return self.query[name][0] if name in self.query else None

    def values(self, header: str) -> list[str]:
        """All values of a header, however they were spread over lines and commas."""
        return [part.strip() for line in self.headers.get(header, []) for part in line.split(",")]

    async def answer(self, status: HTTPStatus, content: str) -> None:
        body = content.encode()
        self._head(status, f"Content-Length: {len(body)}")
        self.writer.write(body)
        await self.writer.drain()

    async def stream(self, blocks: AsyncIterator[bytes]) -> None:
        """Answer with what comes, as it comes, until there is no more or the client is gone."""
        self._head(HTTPStatus.OK, "Transfer-Encoding: chunked")
        await first_of(self._send(blocks), self.reader.read())

    async def switch(self, protocol: str, *headers: str) -> None:
        """Promise that the connection speaks another protocol from now on."""
        lines = [f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}", *headers]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        await self.writer.drain()

    async def _send(self, blocks: AsyncIterator[bytes]) -> None:
        async for block in blocks:
            if block:
                self.writer.write(b"%x\r\n%b\r\n" % (len(block), block))
                await self.writer.drain()
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def _head(self, status: HTTPStatus, length: str) -> None:
        lines = [f"HTTP/1.1 {status} {status.phrase}", "Content-Type: text/plain", "Connection: close", length, "", ""]
        self.writer.write("\r\n".join(lines).encode())


Handler = Callable[[HttpRequest], Awaitable[None]]


class HttpServer:
    """Listens on one address, with TLS, and gives every request to one handler."""

    def __init__(self, address: str, port: int, tls: ssl.SSLContext, handler: Handler) -> None:
        self._place = (address, port)
        self._tls = tls
        self._handler = handler
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._connected, *self._place, ssl=self._tls, limit=_MAX_HEAD_BYTES, ssl_handshake_timeout=_HEAD_SECONDS
        )

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            log.debug("connection ended early", error=str(error))
        except asyncio.CancelledError:
            pass  # the server stops; the streams' own callback would call this an error
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            request = parse(head, reader, writer)
        except (asyncio.LimitOverrunError, ValueError):
            writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            return
        try:
            await self._handler(request)
        except HttpRefusal as refusal:
            await request.answer(refusal.status, str(refusal))
        except OSError:
            raise
        except Exception as error:
            log.exception("request failed", path="/".join(request.path))
            with contextlib.suppress(OSError):
                await request.answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def parse(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
    """Raises ValueError for what is no HTTP."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(line)
        headers.setdefault(name.lower(), []).append(value.strip())
    parts = urlsplit(target)
    return HttpRequest(
        method,
        [unquote(part) for part in parts.path.strip("/").split("/")],
        parse_qs(parts.query, keep_blank_values=True),
        headers,
        _client_name(writer),
        reader,
        writer,
    )


def _client_name(writer: asyncio.StreamWriter) -> str:
    """The common name in the client's certificate; empty without one."""
    certificate = writer.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if names else ""

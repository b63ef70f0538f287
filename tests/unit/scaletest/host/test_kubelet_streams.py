"""The kubelet's own protocols: HTTP that can be taken over, and SPDY streams."""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from scaletest.host.kubelet.streams import spdy
from scaletest.host.kubelet.streams.httpserver import HttpRefusal, HttpRequest, parse


def request_for(head: bytes) -> tuple[HttpRequest, "Wire"]:
    wire = Wire()
    return parse(head, asyncio.StreamReader(), wire), wire


class Wire(asyncio.StreamWriter):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        self._kept = Kept()
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        super().__init__(self._kept, protocol, None, asyncio.get_running_loop())

    @property
    def sent(self) -> bytes:
        return self._kept.sent

    def forget(self) -> None:
        self._kept.sent = b""


class Kept(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peercert": {"subject": ((("organizationName", "o"),), (("commonName", "somebody"),))}})
        self.sent = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return True  # there is no socket that a writer would have to close


async def test_a_request_is_taken_apart() -> None:
    request, _ = request_for(
        b"POST /exec/demo/web%2D0/main?command=sh&command=-c&command=a%20b&tty=1&empty= HTTP/1.1\r\n"
        b"Host: x\r\nX-Stream-Protocol-Version: v5, v4\r\nx-stream-protocol-version: v3\r\n\r\n"
    )
    assert (request.method, request.path) == ("POST", ["exec", "demo", "web-0", "main"])
    assert request.query["command"] == ["sh", "-c", "a b"]
    assert (request.parameter("tty"), request.parameter("empty"), request.parameter("none")) == ("1", "", None)
    assert request.values("x-stream-protocol-version") == ["v5", "v4", "v3"]
    assert request.client_name == "somebody"


@pytest.mark.parametrize("head", [b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
async def test_what_is_no_http_is_an_error(head: bytes) -> None:
    with pytest.raises(ValueError):
        request_for(head)


async def test_an_answer_is_streamed_in_chunks() -> None:
    request, wire = request_for(b"GET / HTTP/1.1\r\n\r\n")

    async def blocks() -> AsyncIterator[bytes]:
        for block in (b"one", b"", b"twelve bytes"):
            yield block

    await request.stream(blocks())
    head, _, body = wire.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"3\r\none\r\nc\r\ntwelve bytes\r\n0\r\n\r\n"


async def test_a_stream_ends_when_its_client_leaves() -> None:
    request, _ = request_for(b"GET / HTTP/1.1\r\n\r\n")
    closed = asyncio.Event()

    async def blocks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    request.reader.feed_eof()
    async with asyncio.timeout(5):
        await request.stream(blocks())


def test_a_refusal_carries_its_status() -> None:
    assert HttpRefusal(HTTPStatus.NOT_FOUND, "no such pod").status == 404


class SpdyClient:
    """The client's side of a connection, in bytes."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.wire = Wire()
        self.opened: list[spdy.Stream] = []
        self._deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
        connection = spdy.SpdyConnection(self.reader, self.wire, self.opened.append)
        self.task = asyncio.create_task(connection.run())

    def open(self, number: int, **headers: str) -> None:
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for part in (name.encode(), value.encode()):
                text += struct.pack(">I", len(part)) + part
        block = self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self.control(1, struct.pack(">IIBB", number, 0, 0, 0) + block)

    def control(self, kind: int, payload: bytes) -> None:
        self.reader.feed_data(struct.pack(">HHI", 0x8003, kind, len(payload)) + payload)

    def data(self, number: int, content: bytes, flags: int = 0) -> None:
        self.reader.feed_data(struct.pack(">II", number, flags << 24 | len(content)) + content)

    async def leave(self) -> None:
        self.reader.feed_eof()
        await self.task


async def test_streams_have_headers_and_carry_bytes_to_their_end() -> None:
    client = SpdyClient()
    client.open(1, streamtype="data", port="80")
    client.open(3, streamtype="error", port="80")
    client.data(1, b"hel")
    client.data(3, b"other")
    client.data(1, b"lo", flags=1)
    await asyncio.sleep(0)
    await client.leave()
    data, error = client.opened
    assert data.headers == {"streamtype": "data", "port": "80"}
    assert (await data.reader.read(), await error.reader.read()) == (b"hello", b"other")


async def test_what_a_stream_writes_is_cut_into_frames_and_closed_once() -> None:
    client = SpdyClient()
    client.open(5, streamtype="stdout")
    await asyncio.sleep(0)
    await client.leave()
    client.wire.forget()
    [stream] = client.opened
    await stream.write(b"x" * 100_000)
    await stream.close()
    await stream.close()
    sizes = []
    rest = client.wire.sent
    while rest:
        number, tail = struct.unpack(">II", rest[:8])
        sizes.append((number, tail & 0xFFFFFF, tail >> 24))
        rest = rest[8 + (tail & 0xFFFFFF) :]
    assert sizes == [(5, 65536, 0), (5, 34464, 0), (5, 0, 1)]


async def test_a_ping_is_answered_and_a_goodbye_ends_the_connection() -> None:
    client = SpdyClient()
    client.control(6, b"\0\0\0\7")
    client.control(7, b"\0\0\0\0\0\0\0\0")
    async with asyncio.timeout(5):
        await client.task
    assert client.wire.sent == struct.pack(">HHI", 0x8003, 6, 4) + b"\0\0\0\7"


async def test_a_stream_that_its_client_resets_has_ended() -> None:
    client = SpdyClient()
    client.open(1, streamtype="stdin")
    client.control(3, struct.pack(">II", 1, 5))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        while not client.opened:
            await asyncio.sleep(0)
        assert await client.opened[0].reader.read() == b""
    await client.leave()

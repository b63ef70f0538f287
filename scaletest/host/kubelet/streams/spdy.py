"""The server's side of SPDY/3.1, as far as Kubernetes uses it: many byte streams over one connection.

Kubernetes never moved its exec and port-forward to HTTP/2; from the apiserver to the kubelet they are SPDY. It uses no
flow control, no server push and no settings, so neither do we.
"""

import asyncio
import struct
import zlib
from collections.abc import Callable

PROTOCOL = "SPDY/3.1"

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 0x01
_CANCEL = 5
_MAX_DATA_BYTES = 64 * 1024

# Headers are compressed with a dictionary that the protocol fixes: header names with their lengths, then common values.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_VALUES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _sized(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY = b"".join(_sized(word.replace("_", " ").encode()) for word in _WORDS.split()) + _VALUES.encode()


class Stream:
    """One stream that the client opened; both directions end on their own."""

    def __init__(self, connection: "SpdyConnection", number: int, headers: dict[str, str]) -> None:
        self.headers = headers
        # What the client sends; at its end when the client has sent its last.
        self.reader = asyncio.StreamReader()
        self._connection = connection
        self._number = number
        self._open = True

    async def write(self, content: bytes) -> None:
        for begin in range(0, len(content), _MAX_DATA_BYTES):
            await self._connection.send_data(self._number, content[begin : begin + _MAX_DATA_BYTES])

    async def close(self) -> None:
        """Say that nothing more comes from us."""
        if self._open:
            self._open = False
            await self._connection.send_data(self._number, b"", _FIN)

    async def reset(self) -> None:
        """Give the stream up in both directions."""
        if self._open:
            self._open = False
            await self._connection.send_control(_RST_STREAM, struct.pack(">II", self._number, _CANCEL))


class SpdyConnection:
    """A connection on which the client opens streams."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_stream: Callable[[Stream], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_stream = on_stream
        self._streams: dict[int, Stream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def run(self) -> None:
        """Read frames until the client leaves."""
        try:
            while True:
                head, flags_and_length = struct.unpack(">II", await self._reader.readexactly(8))
                payload = await self._reader.readexactly(flags_and_length & 0xFFFFFF)
                flags = flags_and_length >> 24
                if not head >> 31:
                    self._data(head, flags, payload)
                elif not await self._control(head & 0xFFFF, flags, payload):
                    return
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            for stream in self._streams.values():
                stream.reader.feed_eof()

    async def send_data(self, number: int, content: bytes, flags: int = 0) -> None:
        self._writer.write(struct.pack(">II", number, flags << 24 | len(content)) + content)
        await self._writer.drain()

    async def send_control(self, kind: int, payload: bytes) -> None:
        self._writer.write(struct.pack(">HHI", 0x8000 | _VERSION, kind, len(payload)) + payload)
        await self._writer.drain()

    def _data(self, number: int, flags: int, content: bytes) -> None:
        stream = self._streams.get(number)
        if stream:
            if content:
                stream.reader.feed_data(content)
            if flags & _FIN:
                stream.reader.feed_eof()

    async def _control(self, kind: int, flags: int, payload: bytes) -> bool:
        """Whether the connection goes on."""
        if kind == _SYN_STREAM:
            number = struct.unpack(">I", payload[:4])[0]
            stream = self._streams[number] = Stream(self, number, self._headers(payload[10:]))
            if flags & _FIN:
                stream.reader.feed_eof()
            nothing = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            await self.send_control(_SYN_REPLY, struct.pack(">I", number) + nothing)
            self._on_stream(stream)
        elif kind == _RST_STREAM:
            former = self._streams.pop(struct.unpack(">I", payload[:4])[0], None)
            if former:
                former.reader.feed_eof()
        elif kind == _PING:
            await self.send_control(_PING, payload)
        return kind != _GOAWAY

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflate.decompress(block)
        count, at = struct.unpack_from(">I", text)[0], 4
        parts: list[str] = []
        for _ in range(2 * count):
            size = struct.unpack_from(">I", text, at)[0]
            parts.append(text[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return dict(zip(parts[::2], parts[1::2], strict=True))

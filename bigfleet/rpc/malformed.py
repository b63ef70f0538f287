"""Requests that cannot be read or are far too large: a clear answer and a count, where gRPC would have neither.

gRPC's own limit (`bigfleet.security.GRPC_OPTIONS`) is higher than ours: gRPC itself refuses what is beyond both,
before our code sees it. Without that limit one stream could fill the memory with a message that never ends.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from bigfleet.errors import BigFleetError

Context = grpc.aio.ServicerContext[Any, Any]


# The largest that clusters send are roll-ups: a hundred thousand rows take about 20 MiB.
MAX_REQUEST_BYTES = 64 * 1024 * 1024


class Malformed(BigFleetError):
    """A request, or a frame of a stream, cannot be read. A servicer lets it pass, and the call ends with its code."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class TooLarge(Malformed):
    """The request is larger than any needs to be; its bytes were not decoded."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class RefuseMalformed(grpc.aio.ServerInterceptor):
    """Refuses calls whose bytes cannot be read; `refused` is told the method's name and the code.

    A servicer that reads a stream must be a coroutine.
    """

    def __init__(self, refused: Callable[[str, grpc.StatusCode], None]) -> None:
        self._refused = refused

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method).rpartition("/")[2]
        wrap, answer = self._guarded(handler, method)
        return wrap(
            answer,
            request_deserializer=_reader(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _guarded(self, handler: Any, method: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The kind of handler, and one that does what `handler` does for what can be read."""

        async def unary_unary(request: Any, context: Context) -> Any:
            if isinstance(request, Malformed):
                await self._refuse(method, request, context)
            return await handler.unary_unary(request, context)

        async def unary_stream(request: Any, context: Context) -> AsyncIterator[Any]:
            if isinstance(request, Malformed):
                await self._refuse(method, request, context)
            answers = handler.unary_stream(request, context)
            if inspect.isasyncgen(answers):
                async for answer in answers:
                    yield answer
            else:
                await answers  # it writes to the context itself

        async def stream(requests: AsyncIterator[Any], context: Context) -> Any:
            try:
                return await (handler.stream_stream or handler.stream_unary)(_readable(requests), context)
            except Malformed as error:
                await self._refuse(method, error, context)

        if handler.request_streaming:
            kind = grpc.stream_stream_rpc_method_handler if handler.response_streaming else None
            return kind or grpc.stream_unary_rpc_method_handler, stream
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler, unary_stream
        return grpc.unary_unary_rpc_method_handler, unary_unary

    async def _refuse(self, method: str, error: Malformed, context: Context) -> NoReturn:
        self._refused(method, error.code)
        await context.abort(error.code, str(error))
        raise AssertionError("an aborted call does not go on")


def _reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(content: bytes) -> Any:
        if len(content) > MAX_REQUEST_BYTES:
            return TooLarge(f"the request has {len(content)} bytes, at most {MAX_REQUEST_BYTES} are allowed")
        try:
            return deserialize(content)
        except DecodeError as error:
            return Malformed(f"the request cannot be read: {error}")

    return read


async def _readable(frames: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for frame in frames:
        if isinstance(frame, Malformed):
            raise frame
        yield frame

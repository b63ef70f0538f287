"""Requests that are no messages at all: a clear answer and a count, where gRPC would print a traceback."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError


class RefuseMalformed(grpc.aio.ServerInterceptor):
    """Answers INVALID_ARGUMENT to unary calls whose bytes cannot be read; `refused` is told the method's name."""

    def __init__(self, refused: Callable[[str], None]) -> None:
        self._refused = refused

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler
        method = str(handler_call_details.method).rpartition("/")[2]

        def read(content: bytes) -> Any:
            try:
                return handler.request_deserializer(content)
            except DecodeError as error:
                return error

        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            if isinstance(request, DecodeError):
                self._refused(method)
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request cannot be read: {request}")
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=read, response_serializer=handler.response_serializer
        )

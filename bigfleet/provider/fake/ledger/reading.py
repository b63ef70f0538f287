"""Reads the ledger's file out of a running provider: the service for admins, and the runner's side of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import ledger_pb2 as pb
from bigfleet.api.v1alpha1 import ledger_pb2_grpc
from bigfleet.provider.fake.ledger.file import LedgerFile, count_ledger
from bigfleet.security import channel, require

_CHUNK_BYTES = 64 * 1024
_TIMEOUT_SECONDS = 120.0


class LedgerReading(ledger_pb2_grpc.LedgerServicer):
    """Streams the file up to the size that it has at the call: whole lines, since only those are written."""

    def __init__(self, file: LedgerFile | None) -> None:
        self._file = file

    async def ReadLedger(  # noqa: N802
        self,
        request: pb.ReadLedgerRequest,  # noqa: ARG002
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.LedgerChunk]:
        await require(context, "admin")
        if self._file is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "without --data-dir there is no ledger to read")
        left = self._file.size
        with self._file.path.open("rb") as file:
            while left > 0 and (content := file.read(min(left, _CHUNK_BYTES))):
                left -= len(content)
                yield pb.LedgerChunk(content=content)


async def fetch_ledger(
    address: str, tls_dir: Path | None, target: Path, *, timeout_seconds: float = _TIMEOUT_SECONDS
) -> int:
    """Copy the ledger of the provider at `address` to `target`, whole or not at all; returns the number of lines.

    Raises grpc.aio.AioRpcError when the provider does not give it, ValueError when a line is damaged, OSError.
    """
    partial = target.with_name(f"{target.name}.partial")
    try:
        with partial.open("wb") as file:
            async with channel(address, tls_dir, "provider") as dialled:
                request = pb.ReadLedgerRequest()
                async for chunk in ledger_pb2_grpc.LedgerStub(dialled).ReadLedger(request, timeout=timeout_seconds):
                    file.write(chunk.content)
        lines = (await asyncio.to_thread(count_ledger, partial))["lines"]
        partial.replace(target)
        return lines
    finally:
        partial.unlink(missing_ok=True)

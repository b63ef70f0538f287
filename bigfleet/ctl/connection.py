"""Where the coordinators are and which certificate we show: from flags, then from the environment."""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from bigfleet.ctl.errors import CtlError, CtlUsageError, from_coordinators, from_rpc
from bigfleet.ctl.flags import DEFAULT_COORDINATOR
from bigfleet.rpc.leaderclient import CoordinatorError, LeaderClient, NoLeader
from bigfleet.security.credentials import channel
from bigfleet.security.files import IdentityFiles, IdentityPaths

_ELECTION_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 0.1
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Connection:
    """How to reach the coordinators and shards."""

    coordinators: tuple[str, ...]
    tls: IdentityPaths | None
    timeout: float

    @asynccontextmanager
    async def leader(self) -> AsyncIterator["Leader"]:
        client = LeaderClient(self.coordinators, self.tls, follow_strangers=True)
        try:
            yield Leader(client, self.timeout)
        finally:
            await client.close()

    def shard(self, address: str) -> grpc.aio.Channel:
        return channel(address, self.tls, "shard")


class Leader:
    """The coordinators' leader; its refusals are CtlErrors."""

    def __init__(self, client: LeaderClient, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    async def read(self, method: str, request: Any) -> Any:
        return await self._call(method, request, again=True)

    async def change(self, method: str, request: Any) -> None:
        """A change is asked for once: done twice it could undo what another caller did in between."""
        await self._call(method, request, again=False)

    async def channel(self) -> grpc.aio.Channel:
        return await self._patiently(lambda: self._client.find(self._timeout))

    async def _call(self, method: str, request: Any, *, again: bool) -> Any:
        return await self._patiently(lambda: self._client.call(method, request, self._timeout, again=again))

    async def _patiently(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """What `ask` brings. Without a leader nothing is done, so asking again through an election is safe."""
        until = time.monotonic() + min(self._timeout, _ELECTION_SECONDS)
        while True:
            try:
                return await ask()
            except NoLeader as error:
                if not error.may_pass or time.monotonic() > until:
                    raise from_coordinators(error) from error
                await asyncio.sleep(_ASK_AGAIN_SECONDS)
            except CoordinatorError as error:
                raise from_coordinators(error) from error
            except grpc.aio.AioRpcError as error:
                raise from_rpc(error) from error


def connection_of(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Connection:
    """The connection that flags and environment ask for. Plaintext only when it is asked for."""
    given = options.coordinator or environ.get("BIGFLEET_COORDINATOR") or DEFAULT_COORDINATOR
    addresses = tuple(address.strip() for address in given.split(",") if address.strip())
    for address in addresses:
        if not address.rpartition(":")[2].isdigit():
            raise CtlUsageError(f"--coordinator: {address!r} is not HOST:PORT")
    triple = (options.tls_cert, options.tls_key, options.tls_ca)
    tls: IdentityPaths | None = None
    if any(triple):
        if not all(triple):
            raise CtlUsageError("--tls-cert, --tls-key and --tls-ca go together: all of them or none")
        tls = IdentityPaths(*triple)
    elif options.tls_dir:
        tls = IdentityPaths.within(options.tls_dir)
    elif not options.plaintext and environ.get("BIGFLEET_TLS_DIR"):
        tls = IdentityPaths.within(Path(environ["BIGFLEET_TLS_DIR"]))
    if bool(tls) == options.plaintext:
        if tls:
            raise CtlUsageError("--plaintext and a certificate: which one?")
        raise CtlUsageError(
            "no certificate", "--tls-dir DIR (make one with `bigfleet certs issue`), or --plaintext if you mean it"
        )
    if tls:
        try:
            fits = IdentityFiles.read(tls).fits
        except OSError as error:
            raise CtlError(f"{error.filename}: {error.strerror}", "make one with `bigfleet certs issue`") from error
        if not fits:
            raise CtlError(f"{tls.private_key} is not the key of {tls.certificate}", "see `bigfleet certs inspect`")
    return Connection(addresses, tls, options.timeout)

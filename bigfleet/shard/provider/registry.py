"""The providers that the coordinators know: asked for at each start, and kept on the disk for when none answers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import grpc
import msgspec
import structlog

from bigfleet.api.v1alpha1 import coordinator_pb2
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.rpc.leaderclient import CoordinatorError, LeaderClient
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.provider.epoch import write_durably

_FILE = "providers.json"
_ASK_TIMEOUT_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 1.0

log = structlog.get_logger()


class CorruptProviders(BigFleetError):
    """The providers' file can't be read. Starting without one of them would buy anew what it has."""

    exit_code = ExitStatus.WRONG_USE


async def known_providers(options: ShardOptions) -> Mapping[str, str]:
    """Each provider's address, by its name; with a registry that has none yet, waits until it has."""
    if not options.asks_registry:
        return options.providers
    path = options.data_dir / _FILE
    kept = _read(path)
    coordinators = LeaderClient(options.coordinator_addresses, options.tls_dir)
    try:
        while True:
            found = await _ask(coordinators)
            if found and found != kept:
                write_durably(path, msgspec.json.encode(found).decode())
            # Coordinators that lost everything know no providers either.
            if found or kept:
                return found or kept
            log.warning("no provider is known yet", hint="register one: bigfleetctl set-provider")
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
    finally:
        await coordinators.close()


async def _ask(coordinators: LeaderClient) -> dict[str, str]:
    """Empty if there are none, or nobody answers."""
    try:
        answer = await coordinators.call("ListProviders", coordinator_pb2.ListProvidersRequest(), _ASK_TIMEOUT_SECONDS)
    except (CoordinatorError, grpc.aio.AioRpcError) as error:
        log.warning("the coordinators do not tell their providers", error=str(error))
        return {}
    return {one.name: one.address for one in answer.providers}


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise CorruptProviders(f"{path} does not hold the shard's providers: {error}") from error

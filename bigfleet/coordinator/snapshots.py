"""Copies of the replicated state: etcd's own snapshots, in pieces for the wire and in dated directories on a disk."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from bigfleet.coordinator.etcd_client import EtcdClient, EtcdUnavailable, MemberStatus
from bigfleet.process.files import write_file

STATE_FILE = "state.db"
META_FILE = "meta.json"
LATEST = "latest"
_CHUNK_BYTES = 1 << 20
# Five minutes apart, a day of them.
_KEPT = 288

log = structlog.get_logger(__name__)


class Meta(msgspec.Struct, frozen=True):
    """What a snapshot is of. Index and term are Raft's at the moment before it was taken."""

    index: int
    term: int
    revision: int
    cluster: str
    taken_at_unix_ns: int


def meta_of(status: MemberStatus, now_unix_ns: int) -> bytes:
    meta = Meta(status.raft_index, status.raft_term, status.revision, f"{status.cluster_id:x}", now_unix_ns)
    return msgspec.json.encode(meta)


async def chunks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at most 1 MiB, fit for the wire (docs/reference/wire.md#coordinator)."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        while len(held) >= _CHUNK_BYTES:
            yield bytes(held[:_CHUNK_BYTES])
            del held[:_CHUNK_BYTES]
    if held:
        yield bytes(held)


async def export(client: EtcdClient, directory: Path, now_unix_ns: int) -> Path:
    """Write a snapshot into a new dated directory, point `latest` at it, and remove the oldest beyond a day's worth."""
    name = datetime.fromtimestamp(now_unix_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    draft, final = directory / f".{name}", directory / name
    draft.mkdir(mode=0o700, parents=True)
    try:
        write_file(draft / META_FILE, meta_of(await client.status(), now_unix_ns), mode=0o600)
        with os.fdopen(os.open(draft / STATE_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            async for piece in client.snapshot():
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(final)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    link = directory / f".{LATEST}"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.rename(directory / LATEST)
    for old in sorted(directory.glob("[0-9]*Z"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


@dataclass(frozen=True)
class Exporting:
    """Exports at once and then every so often; only while it leads, as only the leader is up to date for sure."""

    directory: Path
    interval_seconds: float

    async def run(self, client: EtcdClient, leads: Callable[[], bool]) -> None:
        while True:
            if not leads():
                await asyncio.sleep(min(1.0, self.interval_seconds))
                continue
            try:
                log.info("snapshot exported", to=str(await export(client, self.directory, time.time_ns())))
            except (EtcdUnavailable, OSError) as error:
                log.warning("snapshot not exported", error=str(error))
            await asyncio.sleep(self.interval_seconds)

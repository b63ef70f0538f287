"""Snapshots of the coordinators' state: saved from the running leader, restored offline into an empty directory."""

import argparse
import asyncio
import fcntl
import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

import grpc
import msgspec

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator.member import CLUSTER_TOKEN
from bigfleet.coordinator.snapshots import STATE_FILE
from bigfleet.ctl.connection import Connection
from bigfleet.ctl.errors import CtlError, CtlUsageError, from_rpc
from bigfleet.ctl.output import write

# etcd puts the checksum of a snapshot behind it.
_CHECKSUM_BYTES = hashlib.sha256().digest_size


async def save(connection: Connection, options: argparse.Namespace) -> None:
    """Write FILE whole or not at all; a snapshot takes as long as it takes, --timeout is for finding the leader."""
    draft = options.file.with_name(f".{options.file.name}.{os.getpid()}")
    try:
        if options.file.is_dir():
            raise CtlUsageError(f"{options.file} is a folder")
        if options.file.exists() and not options.force:
            raise CtlError(f"{options.file} is there already", "pass --force to put the snapshot in its place")
        async with connection.leader() as leader:
            meta = await _stream(await leader.channel(), draft)
        _check(draft, options.file)
        draft.replace(options.file)
    except OSError as error:
        # Not the draft's name: the user did not ask for that file.
        raise CtlError(f"the snapshot cannot be written to {options.file}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            draft.unlink()
    write(f"saved snapshot index={meta['index']} term={meta['term']} to {options.file}\n")


async def _stream(leader: grpc.aio.Channel, draft: Path) -> dict[str, int]:
    meta: dict[str, int] = {}
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            async for chunk in rpc.CoordinatorStub(leader).SnapshotSave(pb.SnapshotSaveRequest()):
                if chunk.WhichOneof("chunk") == "meta_json":
                    meta = msgspec.json.decode(chunk.meta_json)
                else:
                    file.write(chunk.data)
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from error
        file.flush()
        os.fsync(file.fileno())
    return meta


def _check(snapshot: Path, called: Path) -> None:
    """Whether the file is whole: its last bytes are the checksum of the rest."""
    digest = hashlib.sha256()
    left = snapshot.stat().st_size - _CHECKSUM_BYTES
    with snapshot.open("rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
        if left != 0 or file.read() != digest.digest():
            raise CtlError(f"{called} is not a whole snapshot: its checksum does not fit")


def _refuse_while_it_runs(target: Path) -> None:
    """etcd holds a lock on its database. What is put in the place of files that it has open is lost on them."""
    try:
        with (target / "member" / "snap" / "db").open("rb") as database:
            fcntl.flock(database, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except BlockingIOError as error:
        raise CtlError(f"the coordinator whose state is in {target} is running", "stop it first") from error


async def restore(options: argparse.Namespace) -> None:
    """Make FILE the state of one coordinator that is not running; the others start empty and join it."""
    source = options.file.resolve() / STATE_FILE if options.file.is_dir() else options.file
    target = options.data_dir / "etcd"
    if not source.exists():
        raise CtlUsageError(f"there is no snapshot {source}")
    if any((target / "member" / "wal").glob("*.wal")) and not options.force:
        raise CtlError(
            f"{target} holds a member's state already",
            "stop that coordinator first; --force then puts the snapshot in the place of its state",
        )
    _refuse_while_it_runs(target)
    _check(source, source)
    scheme = "http" if options.plaintext else "https"
    url = f"{scheme}://{options.raft_advertise}"
    draft = options.data_dir / f".etcd.{os.getpid()}"
    options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        await _etcdutl(
            options.etcdutl_binary,
            *("snapshot", "restore", str(source), f"--data-dir={draft}", f"--name={options.node_id}"),
            *(f"--initial-cluster={options.node_id}={url}", f"--initial-advertise-peer-urls={url}"),
            f"--initial-cluster-token={CLUSTER_TOKEN}",
        )
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    write(
        f"restored {source} as {options.node_id} into {options.data_dir}\n"
        "Start this coordinator first, then the others with empty data directories: they join it.\n"
    )


async def _etcdutl(binary: str, *arguments: str) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            binary, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except FileNotFoundError as error:
        raise CtlError(
            f"there is no {binary!r} here", "say where it is with --etcdutl-binary PATH; it comes with etcd"
        ) from error
    said, _ = await process.communicate()
    if process.returncode:
        raise CtlError(f"etcdutl ended with {process.returncode}: {said.decode(errors='replace').strip()[-500:]}")

"""Serves a kept snapshot with the toolchain's Prometheus: on loopback, read-only, and gone without a trace."""

import asyncio
import contextlib
import os
import socket
import tarfile
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx

from bigfleet.process.parentdeath import die_with
from scaletest.errors import SnapshotFailed, UsageError
from scaletest.run.steps.evidence import SNAPSHOT, count_snapshot

_START_SECONDS = 60
_STOP_SECONDS = 15
# Old enough for any evidence; nothing is ever deleted from the copy.
_RETENTION = "100y"
_DAMAGED = "the evidence is damaged; is there another copy of the folder?"


def snapshot_of(results: Path) -> Path:
    """The snapshot of a results folder. Raises UsageError where there is none."""
    archive = results / SNAPSHOT
    if not archive.is_file():
        raise UsageError(f"{results} holds no {SNAPSHOT}", hint="give the folder of a run that kept its evidence")
    return archive


@contextlib.asynccontextmanager
async def serve_snapshot(results: Path, prometheus: Path, port: int = 0) -> AsyncIterator[str]:
    """The URL of a Prometheus that has the run's samples, as long as the context lasts. Port 0: any that is free."""
    archive = snapshot_of(results)
    with tempfile.TemporaryDirectory(prefix="scaletest-replay-") as directory:
        data = Path(directory)
        await asyncio.to_thread(_unpack, archive, data)
        address = f"127.0.0.1:{port or _free_port()}"
        (data / "prometheus.yml").write_text("{}\n")
        with (data / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                prometheus,
                f"--config.file={data / 'prometheus.yml'}",
                f"--storage.tsdb.path={data / 'tsdb'}",
                f"--storage.tsdb.retention.time={_RETENTION}",
                f"--web.listen-address={address}",
                "--log.level=error",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us to hear; we end it
                preexec_fn=partial(die_with, os.getpid()),
            )
        try:
            await _until_ready(process, f"http://{address}", data / "log")
            yield f"http://{address}"
        finally:
            await _end(process)


def _unpack(archive: Path, data: Path) -> None:
    try:
        count_snapshot(archive)
        with tarfile.open(archive) as tar:
            tar.extractall(data / "tsdb", filter="data")
    except SnapshotFailed as error:
        raise UsageError(str(error), hint=_DAMAGED) from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"{archive} cannot be opened: {error}", hint=_DAMAGED) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _until_ready(process: asyncio.subprocess.Process, url: str, log: Path) -> None:
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    async with httpx.AsyncClient(trust_env=False, timeout=2) as http:
        while process.returncode is None and asyncio.get_running_loop().time() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if (await http.get(f"{url}/-/ready")).status_code == 200 and process.returncode is None:
                    return
            await asyncio.sleep(0.1)
    said = log.read_text(errors="replace").strip().splitlines()
    raise UsageError(f"Prometheus cannot serve the snapshot{': ' + said[-1] if said else ''}", hint=_DAMAGED)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

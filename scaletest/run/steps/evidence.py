"""What outlives the run: the Prometheus snapshot, logs, summary.json. Written before teardown, after any ending."""

import asyncio
import contextlib
import gzip
import json
import ssl
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import yaml
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from scaletest.errors import LedgerFailed, PrometheusUnreachable, ScaletestError, SnapshotFailed
from scaletest.judge.prometheus import SERVER_NAME, Prometheus
from scaletest.judge.readings.offences import first_offences
from scaletest.model.counting import counted
from scaletest.run.journal import DiaryLine, RunJournal
from scaletest.run.target.kube_api import KubeApi

SNAPSHOT = "prometheus-snapshot.tar.gz"
LEDGER = "ledger.jsonl"
_LOG_LINES = 400
_DOWNLOAD_SECONDS = 240
_READ_BYTES = 1 << 20


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write whole or not at all."""
    with _whole(path) as partial:
        partial.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file to write that takes the place of `path` at the end; if it can't be written, nothing of it stays."""
    partial = path.with_suffix(path.suffix + ".partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def write_values(path: Path, values: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(values, sort_keys=True))


def read_events(path: Path) -> list[DiaryLine]:
    """The diary so far; a line that was cut off by a full disk is left out."""
    events = []
    text = path.read_text(errors="replace") if path.is_file() else ""  # a device might never end
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            events.append(json.loads(line))
    return events


async def keep_snapshot(prometheus: Prometheus, sidecar_url: str, tls_dir: Path, target: Path) -> dict[str, int]:
    """Snapshot the TSDB, fetch it, open it again, and count what is in it."""
    try:
        name = await prometheus.snapshot()
        await _download(f"{sidecar_url}/snapshots/{name}.tar.gz", tls_dir, target)
    except (PrometheusUnreachable, httpx.HTTPError, OSError) as error:
        raise SnapshotFailed(f"the Prometheus snapshot could not be kept: {error}") from error
    return await asyncio.to_thread(count_snapshot, target)


@retry(
    retry=retry_if_exception_type(httpx.TransportError),
    stop=stop_after_attempt(3),
    wait=wait_fixed(2),
    reraise=True,
)
async def _download(url: str, tls_dir: Path, target: Path) -> None:
    """Again from its beginning if the way breaks off: it is the evidence."""
    tls = ssl.create_default_context(cafile=str(tls_dir / "ca.crt"))
    tls.load_cert_chain(tls_dir / "tls.crt", tls_dir / "tls.key")
    async with (
        httpx.AsyncClient(verify=tls, timeout=_DOWNLOAD_SECONDS, trust_env=False) as http,
        http.stream("GET", url, extensions={"sni_hostname": SERVER_NAME}) as answer,
    ):
        answer.raise_for_status()
        with _whole(target) as partial, partial.open("wb") as file:
            async for chunk in answer.aiter_bytes():
                file.write(chunk)


async def keep_ledger(address: str, tls_dir: Path, target: Path) -> dict[str, int]:
    """Fetch what the provider wrote down, open it again, and count what is in it."""
    from bigfleet.provider.fake.ledger.file import count_ledger
    from bigfleet.provider.fake.ledger.reading import fetch_ledger

    try:
        await fetch_ledger(address, tls_dir, target)
        return await asyncio.to_thread(count_ledger, target)
    except (grpc.aio.AioRpcError, OSError, ValueError) as error:
        said = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        raise LedgerFailed(f"the provider's ledger could not be kept: {said}") from error


def read_offences(results: Path) -> dict[str, str]:
    """By rule that was broken, what the ledger of these results names; nothing where there is no ledger to read."""
    from bigfleet.provider.fake.ledger.file import read_entries

    try:
        return first_offences(read_entries(results / LEDGER))
    except (OSError, ValueError):
        return {}


def count_snapshot(archive: Path) -> dict[str, int]:
    """Blocks, series and samples of a snapshot. Every byte is read: what is cut off or damaged is no evidence."""
    totals = {"blocks": 0, "series": 0, "samples": 0, "bytes": archive.stat().st_size}
    sizes: Counter[str] = Counter()
    try:
        with gzip.open(archive) as whole:
            while whole.read(_READ_BYTES):
                pass  # the checksum is at its end
        with tarfile.open(archive) as tar:
            for member in tar:
                block, _, part = member.name.removeprefix("./").partition("/")
                sizes[f"{block}/{part.partition('/')[0]}"] += member.size
                if part == "meta.json" and (file := tar.extractfile(member)):
                    stats = json.load(file)["stats"]
                    totals["blocks"] += 1
                    totals["series"] += stats.get("numSeries", 0)
                    totals["samples"] += stats.get("numSamples", 0)
    except (tarfile.TarError, EOFError, OSError, ValueError, KeyError, zlib.error) as error:
        raise SnapshotFailed(f"{archive.name} cannot be opened again: {error}") from error
    for block in [name.removesuffix("/meta.json") for name in sizes if name.endswith("/meta.json")]:
        for part in ("index", "chunks"):
            if not sizes[f"{block}/{part}"]:
                raise SnapshotFailed(f"{archive.name} holds no {part} for its block {block}")
    if not totals["samples"]:
        raise SnapshotFailed(f"{archive.name} holds no samples")
    return totals


async def keep_logs(api: KubeApi, directory: Path, journal: RunJournal) -> None:
    """The tail of every container's log."""
    try:
        kept = 0
        for pod in await api.pods():
            for container in [*(pod.spec.init_containers or []), *pod.spec.containers]:
                kept += await _keep_log(api, pod.metadata.name, container.name, directory)
        journal.say("evidence", f"kept {counted(kept, 'log')}")
    except (ScaletestError, OSError) as error:
        journal.say("evidence", f"logs could not be kept: {error}")


async def _keep_log(api: KubeApi, pod: str, container: str, directory: Path) -> int:
    """The log of a container and of its former life; how many there were."""
    kept = 0
    for previous, suffix in ((False, ""), (True, ".previous")):
        try:
            text = await api.log(pod, container, _LOG_LINES, previous=previous)
        except ScaletestError:
            continue  # never started, never restarted, or already gone: no log to keep
        if text.strip():
            directory.mkdir(exist_ok=True)
            (directory / f"{pod}-{container}{suffix}.log").write_text(text)
            kept += 1
    return kept

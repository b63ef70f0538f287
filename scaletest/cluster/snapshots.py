"""Hands out Prometheus snapshots as tarballs: the sidecar that lets the runner fetch evidence without exec or cp."""

import asyncio
import re
import ssl
import tarfile
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

_NAME = re.compile(r"^[0-9A-Za-z-]+$")


@dataclass(frozen=True)
class SnapshotsOptions:
    """Where to listen and what to serve."""

    # `host:port`, each of them.
    listen: tuple[str, ...]
    # Prometheus writes its snapshots here: `<tsdb>/snapshots`.
    directory: Path
    tls_dir: Path


async def serve(options: SnapshotsOptions) -> None:
    """Serve GET /snapshots/<name>.tar.gz to clients of the run's CA, until cancelled."""

    async def fetch(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        source = options.directory / name
        if not _NAME.match(name) or not source.is_dir():
            raise web.HTTPNotFound(text=f"there is no snapshot {name}")
        target = options.directory / f"{name}.tar.gz"
        await asyncio.to_thread(_pack, source, target)
        return web.FileResponse(target)

    app = web.Application()
    app.add_routes([web.get("/snapshots/{name}.tar.gz", fetch)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = _require_client_certificate(options.tls_dir)
    try:
        for address in options.listen:
            host, _, port = address.rpartition(":")
            await web.TCPSite(runner, host, int(port), ssl_context=tls).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _pack(source: Path, target: Path) -> None:
    """The snapshot's contents at the root of the tarball, so that it can be replayed where it is unpacked."""
    with tarfile.open(target, "w:gz", compresslevel=5) as archive:
        for entry in sorted(source.iterdir()):
            archive.add(entry, arcname=entry.name)


def _require_client_certificate(tls_dir: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tls_dir / "ca.crt"))
    context.load_cert_chain(tls_dir / "tls.crt", tls_dir / "tls.key")
    context.verify_mode = ssl.CERT_REQUIRED
    return context

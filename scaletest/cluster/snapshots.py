"""Hands out Prometheus snapshots as tarballs: the sidecar that lets the runner fetch evidence without exec or cp.

It also renews the pod's certificate. Prometheus reads it anew at every handshake, and so do we.
"""

import asyncio
import re
import ssl
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from bigfleet.security.credentials import Leaf
from bigfleet.security.files import IdentityPaths
from bigfleet.security.renewal import Renewal, keep_renewed

_NAME = re.compile(r"^[0-9A-Za-z-]+$")


@dataclass(frozen=True)
class SnapshotsOptions:
    """Where to listen and what to serve."""

    listen: tuple[str, ...]
    """`host:port`, each of them."""
    directory: Path
    """Prometheus writes its snapshots here: `<tsdb>/snapshots`."""
    tls_dir: Path
    """The pod's own certificate."""
    renewal: Renewal = field(default_factory=Renewal)


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
        if options.renewal.issuer_addr:
            await keep_renewed(options.tls_dir, options.renewal, CollectorRegistry())
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _pack(source: Path, target: Path) -> None:
    """The snapshot's contents at the root of the tarball, so that it can be replayed where it is unpacked."""
    with tarfile.open(target, "w:gz", compresslevel=5) as archive:
        for entry in sorted(source.iterdir()):
            archive.add(entry, arcname=entry.name)


def _require_client_certificate(tls_dir: Path) -> ssl.SSLContext:
    """For clients of our CA only; each handshake shows the certificate that is in the folder at that time."""
    leaf, shown = Leaf(tls_dir), _with_certificate(tls_dir)

    def show_newest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal shown
        if leaf.replaced():
            shown = _with_certificate(tls_dir)
        connection.context = shown

    context = _with_certificate(tls_dir)
    context.verify_mode = ssl.CERT_REQUIRED
    context.sni_callback = show_newest
    return context


def _with_certificate(tls_dir: Path) -> ssl.SSLContext:
    paths = IdentityPaths.within(tls_dir)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(paths.ca_certificate))
    context.load_cert_chain(paths.certificate, paths.private_key)
    return context

"""Hands out Prometheus snapshots as tarballs: the sidecar that lets the runner fetch evidence without exec or cp.

It also renews the pod's certificate; Prometheus itself reads it anew at every handshake.
"""

import asyncio
import re
import ssl
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from bigfleet.daemon import forever
from bigfleet.security.credentials import Leaf
from bigfleet.security.files import IdentityPaths
from bigfleet.security.renewal import Renewal, keep_renewed

_CERTIFICATE_CHECK_SECONDS = 5.0
_NAME = re.compile(r"^[0-9A-Za-z-]+$")


@dataclass(frozen=True)
class SnapshotsOptions:
    """Where to listen and what to serve."""

    # `host:port`, each of them.
    listen: tuple[str, ...]
    # Prometheus writes its snapshots here: `<tsdb>/snapshots`.
    directory: Path
    tls_dir: Path
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
    leaf, tls = Leaf(options.tls_dir), _require_client_certificate(options.tls_dir)
    try:
        for address in options.listen:
            host, _, port = address.rpartition(":")
            await web.TCPSite(runner, host, int(port), ssl_context=tls).start()
        loops = [_take_up(leaf, options.tls_dir, tls)]
        if options.renewal.issuer_addr:
            loops.append(keep_renewed(options.tls_dir, options.renewal, CollectorRegistry()))
        await forever(*loops)
    finally:
        await runner.cleanup()


def _pack(source: Path, target: Path) -> None:
    """The snapshot's contents at the root of the tarball, so that it can be replayed where it is unpacked."""
    with tarfile.open(target, "w:gz", compresslevel=5) as archive:
        for entry in sorted(source.iterdir()):
            archive.add(entry, arcname=entry.name)


def _require_client_certificate(tls_dir: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tls_dir / "ca.crt"))
    _show_certificate(tls_dir, context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _show_certificate(tls_dir: Path, context: ssl.SSLContext) -> None:
    paths = IdentityPaths.within(tls_dir)
    context.load_cert_chain(paths.certificate, paths.private_key)


async def _take_up(leaf: Leaf, tls_dir: Path, context: ssl.SSLContext) -> None:
    """Show a renewed certificate to those who connect from then on."""
    while True:
        await asyncio.sleep(_CERTIFICATE_CHECK_SECONDS)
        if leaf.replaced():
            _show_certificate(tls_dir, context)

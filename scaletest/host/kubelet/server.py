"""The kubelet's HTTPS endpoint: container logs, for the apiserver alone."""

import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from scaletest.host.addresses import KUBELET_PORT
from scaletest.host.credentials import APISERVER_AS_KUBELET_CLIENT, Credentials
from scaletest.host.kubelet.logs import container_log, read_log
from scaletest.host.kubelet.pods import Pod
from scaletest.host.kubelet.runtime import Runtime


class LogServer:
    """Serves `/containerLogs/{namespace}/{pod}/{container}` as the apiserver asks for it."""

    def __init__(self, runtime: Runtime, credentials: Credentials, find: Callable[[str], Pod | None]) -> None:
        self._runtime = runtime
        self._find = find
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(credentials.ca))
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._tls.load_cert_chain(credentials.kubelet.certificate, credentials.kubelet.key)
        app = web.Application(middlewares=[_apiserver_only])
        app.add_routes([web.get("/containerLogs/{namespace}/{pod}/{container}", self._logs)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> None:
        await self._runner.setup()
        address = self._runtime.network.control_plane
        await web.TCPSite(self._runner, address, KUBELET_PORT, ssl_context=self._tls).start()

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        where = request.match_info
        pod = self._find(f"{where['namespace']}/{where['pod']}")
        container = pod.container(where["container"]) if pod else None
        if pod is None or container is None:
            raise web.HTTPNotFound(text=f"container {where['container']} of pod {where['pod']} is not known here")
        query = request.query
        previous = query.get("previous") == "true"
        attempt = container.status.restart_count - int(previous)
        path = container_log(self._runtime.pod_logs_dir, pod.object, where["container"], attempt)
        if not path.exists():
            which = "previous run" if previous else "run"
            raise web.HTTPBadRequest(text=f"container {where['container']} has no {which} yet")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        left = int(query["limitBytes"]) if "limitBytes" in query else None
        blocks = read_log(
            path,
            tail_lines=int(query["tailLines"]) if "tailLines" in query else None,
            follow=query.get("follow") == "true" and not previous,
            is_running=lambda: container.is_running and container.status.restart_count == attempt,
        )
        async for block in blocks:
            await response.write(block[:left])
            if left is not None:
                left -= len(block)
                if left <= 0:
                    break
        await response.write_eof()
        return response


@web.middleware
async def _apiserver_only(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    names = {value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName"}
    if APISERVER_AS_KUBELET_CLIENT not in names:
        raise web.HTTPForbidden(text="only the apiserver may read logs here")
    return await handler(request)

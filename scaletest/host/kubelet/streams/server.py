"""The kubelet's HTTPS endpoint, for the apiserver alone: logs, exec and port-forward."""

import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

from scaletest.components.pki import Pki
from scaletest.host.addresses import KUBELET_PORT
from scaletest.host.credentials import APISERVER_AS_KUBELET_CLIENT, KUBELET
from scaletest.host.kubelet.logs.logs import container_log, read_log, stamped
from scaletest.host.kubelet.pod.containers import KubeletContainer
from scaletest.host.kubelet.pod.pods import KubeletPod
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.streams import streaming
from scaletest.host.kubelet.streams.httpserver import HttpRefusal, HttpRequest, HttpServer


class KubeletServer:
    """Serves what `kubectl logs`, `exec` and `port-forward` ask for, by way of the apiserver."""

    def __init__(self, runtime: Runtime, pki: Pki, find: Callable[[str], KubeletPod | None]) -> None:
        self._runtime = runtime
        self._find = find
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki.ca))
        tls.verify_mode = ssl.CERT_REQUIRED
        files = pki.files(KUBELET)
        tls.load_cert_chain(files.certificate, files.key)
        self._server = HttpServer(runtime.network.control_plane, KUBELET_PORT, tls, self._serve)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()

    async def _serve(self, request: HttpRequest) -> None:
        if request.client_name != APISERVER_AS_KUBELET_CLIENT:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "only the apiserver is answered here")
        match request.path:
            case ["containerLogs", namespace, name, container]:
                await self._logs(request, *self._container(namespace, name, container))
            case ["exec", namespace, name, container] | ["exec", namespace, name, _, container]:
                await streaming.execute(request, self._runtime, self._container(namespace, name, container)[1])
            case ["portForward", namespace, name] | ["portForward", namespace, name, _]:
                await streaming.forward(request, self._pod(namespace, name))
            case [verb, *_]:
                raise HttpRefusal(HTTPStatus.NOT_IMPLEMENTED, f"the embedded host does not offer {verb}")

    async def _logs(self, request: HttpRequest, pod: KubeletPod, container: KubeletContainer) -> None:
        name = container.status.name
        previous = request.parameter("previous") == "true"
        attempt = container.status.restart_count - int(previous)
        path = container_log(self._runtime.pod_logs_dir, pod.object, name, attempt)
        if not path.exists():
            which = "previous terminated container" if previous else "container"
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, f'{which} "{name}" in pod "{pod.key}" has not run yet')
        limit = request.parameter("limitBytes")
        blocks = self._blocks(request, path, container, attempt, follow=not previous)
        await request.stream(_limited(blocks, int(limit)) if limit else blocks)

    def _blocks(
        self, request: HttpRequest, path: Path, container: KubeletContainer, attempt: int, *, follow: bool
    ) -> AsyncIterator[bytes]:
        times, tail = self._runtime.log_times, request.parameter("tailLines")
        since = _since(request)
        blocks = read_log(
            path,
            tail_lines=int(tail) if tail else None,
            follow=follow and request.parameter("follow") == "true",
            is_running=lambda: container.is_running and container.status.restart_count == attempt,
            since=times.offset_since(path, since) if since else 0,
        )
        if request.parameter("timestamps") == "true":
            return stamped(blocks, lambda offset: times.moment_of(path, offset))
        return _contents(blocks)

    def _container(self, namespace: str, name: str, container: str) -> tuple[KubeletPod, KubeletContainer]:
        pod = self._pod(namespace, name)
        found = pod.container(container)
        if found is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, f"pod {name} has no container {container}")
        return pod, found

    def _pod(self, namespace: str, name: str) -> KubeletPod:
        pod = self._find(f"{namespace}/{name}")
        if pod is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, f"pod {name} of namespace {namespace} is not known here")
        return pod


async def _contents(blocks: AsyncIterator[tuple[int, bytes]]) -> AsyncIterator[bytes]:
    async for _, block in blocks:
        yield block


async def _limited(blocks: AsyncIterator[bytes], left: int) -> AsyncIterator[bytes]:
    async for block in blocks:
        yield block[:left]
        left -= len(block)
        if left <= 0:
            return


def _since(request: HttpRequest) -> datetime | None:
    seconds, moment = request.parameter("sinceSeconds"), request.parameter("sinceTime")
    if seconds:
        return datetime.now(UTC) - timedelta(seconds=int(seconds))
    return datetime.fromisoformat(moment) if moment else None

"""The way to the run's Prometheus: any address, one name, and what happens when it breaks off."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bigfleet.security.authority import Authority
from bigfleet.security.identity import Identity
from scaletest.errors import PrometheusUnreachable, SnapshotFailed
from scaletest.judge.prometheus import SERVER_NAME, Prometheus
from scaletest.run.steps.evidence import keep_snapshot

ONE = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "1"]}]}}

SNAPSHOT = {"status": "success", "data": {"name": "now"}}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority.create("run")
    made.issue(Identity("admin")).write(tmp_path)
    return made


class Patient(HTTPServer):
    """A client that turns away is no error."""

    def handle_error(self, *_: object) -> None:
        pass


class Server:
    """Answers every query with 1, in the name of somebody; hangs up on the first so many of them."""

    def __init__(self, breaks: int = 0) -> None:
        self.asked = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.asked += 1
                if server.asked > breaks:
                    body = json.dumps(SNAPSHOT if "snapshot" in self.path else ONE).encode()
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._handler = Handler

    @contextmanager
    def listening(self, authority: Authority, name: str, directory: Path) -> Iterator[str]:
        directory.mkdir()
        authority.issue(Identity("prometheus", "prometheus-0"), dns_names=[name]).write(directory)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(directory / "ca.crt"))
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        with Patient(("127.0.0.1", 0), self._handler) as http:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
            serving = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
            serving.start()
            try:
                yield f"https://127.0.0.1:{http.server_port}"
            finally:
                http.shutdown()
                serving.join()


async def test_whoever_proves_to_be_the_runs_prometheus_is_believed_at_any_address(
    tmp_path: Path, authority: Authority
) -> None:
    with Server().listening(authority, SERVER_NAME, tmp_path / "server") as url:
        assert await Prometheus(url, tmp_path).value("any") == 1


async def test_a_stranger_of_the_same_run_is_not_believed(tmp_path: Path, authority: Authority) -> None:
    with Server().listening(authority, "shard.bigfleet", tmp_path / "server") as url:
        with pytest.raises(PrometheusUnreachable, match=SERVER_NAME):
            await Prometheus(url, tmp_path).value("any")
        with pytest.raises(SnapshotFailed, match=SERVER_NAME):
            await keep_snapshot(Prometheus(url, tmp_path), url, tmp_path, tmp_path / "snapshot.tar.gz")


@pytest.mark.parametrize("way_may_break", [True, False])
async def test_a_query_is_repeated_where_the_way_may_break(
    tmp_path: Path, authority: Authority, way_may_break: bool
) -> None:
    server = Server(breaks=1)
    with server.listening(authority, SERVER_NAME, tmp_path / "server") as url:
        prometheus = Prometheus(url, tmp_path, way_may_break=way_may_break)
        if way_may_break:
            assert await prometheus.value("any") == 1
        else:
            with pytest.raises(PrometheusUnreachable):
                await prometheus.value("any")
    assert server.asked == (2 if way_may_break else 1)

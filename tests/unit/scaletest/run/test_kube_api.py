"""The port to the Kubernetes client: whatever the API does, only errors of our own come out of it."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from scaletest.errors import (
    KubeApiConflict,
    KubeApiDenied,
    KubeApiError,
    KubeApiNotFound,
    KubeApiUnreachable,
)
from scaletest.run.steps.teardown import remove_release
from scaletest.run.target.helm import Helm
from scaletest.run.target.kube_api import KubeApi, error_of

Call = Callable[[KubeApi], Coroutine[Any, Any, Any]]

# Each call of the runner, in the phase that makes it.
CALLS: dict[str, Call] = {
    "rights: may": lambda api: api.may({"verb": "get", "resource": "pods"}),
    "install: holder": lambda api: api.holder(),
    "install: create_namespace": lambda api: api.create_namespace(),
    "install: create_secret": lambda api: api.create_secret("name", {"key": b"value"}),
    "install: create_config_map": lambda api: api.create_config_map("name", {"key": "value"}),
    "install: pod_ip": lambda api: api.pod_ip("pod"),
    "settle: ready_pods": lambda api: api.ready_pods("kwok-cluster"),
    "soak: set_phase": lambda api: api.set_phase("soak", 1.0),
    "soak: lives": lambda api: api.lives(),
    "evidence: pods": lambda api: api.pods(),
    "evidence: log": lambda api: api.log("pod", "container", 10),
    "keep: disown": lambda api: api.disown(),
    "teardown: delete_cluster_objects": lambda api: api.delete_cluster_objects(),
    "teardown: delete_namespace": lambda api: api.delete_namespace(5),
    "teardown: leftovers": lambda api: api.leftovers(),
    "status: all_pods": lambda api: api.all_pods(),
    "gc: runs": lambda api: api.runs(),
}
# What an absent namespace means is its answer, not an error.
ABSENCE_IS_AN_ANSWER = {"install: holder": None, "teardown: delete_namespace": True}


@contextmanager
def apiserver(status: int) -> Iterator[str]:
    """A server that answers every request with this status, in an apiserver's form."""

    class Answers(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            body = json.dumps({"kind": "Status", "code": status, "message": f"said {status}"}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Not on the screen."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def api_at(url: str, directory: Path) -> KubeApi:
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return KubeApi(kubeconfig, "mine", "run-1", directory)


@pytest.mark.parametrize(
    ("status", "error", "message", "hint"),
    [
        (401, KubeApiDenied, "the Kubernetes API denied the request: said 401", "run `kubectl auth whoami`"),
        (403, KubeApiDenied, "the Kubernetes API denied the request: said 403", "run `scaletest-runner rbac`"),
        (404, KubeApiNotFound, "the Kubernetes API answered 404: said 404", ""),
        (409, KubeApiConflict, "the Kubernetes API answered 409: said 409", ""),
        (500, KubeApiError, "the Kubernetes API answered 500: said 500", ""),
    ],
)
def test_an_answer_that_is_an_error_is_the_same_one_in_every_phase(
    status: int, error: type[KubeApiError], message: str, hint: str, tmp_path: Path
) -> None:
    with apiserver(status) as url:
        for what, call in CALLS.items():
            api = api_at(url, tmp_path)
            if status == 404 and what in ABSENCE_IS_AN_ANSWER:
                assert asyncio.run(call(api)) == ABSENCE_IS_AN_ANSWER[what]
                continue
            with pytest.raises(KubeApiError) as raised:
                asyncio.run(call(api))
            assert (type(raised.value), raised.value.message) == (error, message), what
            assert raised.value.hint.startswith(hint), what
        assert asyncio.run(api_at(url, tmp_path).me()) == "us"


@pytest.mark.parametrize("what", CALLS)
def test_no_answer_is_the_same_error_in_every_phase(what: str, tmp_path: Path) -> None:
    with pytest.raises(KubeApiUnreachable, match=r"^the Kubernetes API does not answer: .*refused") as raised:
        asyncio.run(CALLS[what](api_at("http://127.0.0.1:1", tmp_path)))
    assert raised.value.hint == "run `kubectl cluster-info`, which asks it too"


def test_a_certificate_that_is_not_trusted_is_no_answer() -> None:
    error = error_of(ApiException(0, "SSLError\ncertificate verify failed"))
    assert type(error) is KubeApiUnreachable
    assert error.message == "the Kubernetes API does not answer: SSLError certificate verify failed"


def test_a_kubeconfig_without_a_context_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    with pytest.raises(KubeApiError, match=r"kubeconfig cannot be used: "):
        KubeApi(tmp_path / "kubeconfig", "mine", "run-1", tmp_path)


class Released(Helm):
    """A Helm that has removed the release."""

    def __init__(self) -> None:
        pass

    async def uninstall(self, timeout_seconds: float) -> None:
        """Nothing is left to do."""


@pytest.mark.parametrize(("status", "error"), [(401, KubeApiDenied), (403, KubeApiDenied)])
def test_a_teardown_that_is_denied_says_so(status: int, error: type[KubeApiError], tmp_path: Path) -> None:
    with apiserver(status) as url, pytest.raises(error):
        asyncio.run(remove_release(Released(), api_at(url, tmp_path), 5))


def test_a_teardown_whose_end_cannot_be_seen_names_the_namespace_and_why(tmp_path: Path) -> None:
    with apiserver(500) as url:
        left = asyncio.run(remove_release(Released(), api_at(url, tmp_path), 5))
    said = "the Kubernetes API answered 500: said 500"
    assert left == [f"namespace/mine ({said}, when it was looked for)", said]

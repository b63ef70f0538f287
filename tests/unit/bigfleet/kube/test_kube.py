"""The parts of the Kubernetes client that need no apiserver: configuration, retries, frames, rate limit, queue."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from bigfleet.kube import KubeClient, KubeConfig, KubeConfigError, KubeError, Store, TooManyRequests, WorkQueue
from bigfleet.kube.errors import AlreadyExists, Conflict, Gone, NotFound, error_from_status
from bigfleet.kube.frames import event_decoder
from bigfleet.kube.ratelimit import RateLimit
from bigfleet.kube.resources import PODS
from bigfleet.podcontroller.pods import Pod


def kubeconfig(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    file = tmp_path / "kubeconfig"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_kubeconfig_is_read_with_its_files_and_keeps_its_secrets_to_itself(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"the CA")
    (tmp_path / "token").write_text("hush\n")
    file = kubeconfig(
        tmp_path,
        {"server": "https://10.0.0.1:6443/", "certificate-authority": "ca.pem", "tls-server-name": "kubernetes"},
        {"tokenFile": "token", "client-key-data": base64.b64encode(b"hush too").decode()},
    )
    config = KubeConfig.from_file(file)
    assert (config.server, config.ca_pem, config.tls_server_name) == ("https://10.0.0.1:6443", b"the CA", "kubernetes")
    assert (config.bearer_token(), config.client_key_pem) == ("hush", b"hush too")
    assert "hush" not in repr(config)


@pytest.mark.parametrize(
    ("cluster", "user", "complaint"),
    [
        ({}, {}, "cluster 'c' has no server"),
        ({"server": "https://a"}, {"exec": {"command": "aws"}}, "user 'u' logs in by exec"),
        ({"server": "https://a", "certificate-authority": "nowhere.pem"}, {}, "nowhere.pem"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(KubeConfigError, match=complaint):
        KubeConfig.from_file(kubeconfig(tmp_path, cluster, user))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("just text", "not a kubeconfig"), ("current-context: gone", "no context 'gone'"), ("a: [", "kubeconfig")],
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(KubeConfigError, match=complaint):
        KubeConfig.from_file(file)


def test_a_kubeconfig_is_written_as_it_is_read_and_for_our_eyes_only(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    for config in (
        KubeConfig("https://host:6443", b"the CA", b"certificate", b"key", tls_server_name="kubernetes"),
        KubeConfig("https://host", b"the CA", token="secret"),
        KubeConfig("http://host", token_file=tmp_path / "token"),
    ):
        config.write(file)
        assert KubeConfig.from_file(file) == config
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_service_account_is_reached_by_a_name_that_every_cluster_proves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_bytes(b"the CA")
    (tmp_path / "token").write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    config = KubeConfig.from_service_account(tmp_path)
    assert (config.server, config.tls_server_name) == ("https://[fd00::1]:443", "kubernetes.default.svc")
    (tmp_path / "token").write_text("rotated")
    assert config.bearer_token() == "rotated"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"reason": "NotFound"}', NotFound),
        (409, b'{"reason": "AlreadyExists"}', AlreadyExists),
        (409, b'{"reason": "Conflict"}', Conflict),
        (500, b'{"code": 410, "reason": "Expired"}', Gone),
        (502, b"<html>bad gateway</html>", KubeError),
    ],
)
def test_statuses_become_their_errors(status: int, body: bytes, kind: type[KubeError]) -> None:
    assert type(error_from_status(status, body)) is kind


@asynccontextmanager
async def answering(*answers: web.Response) -> AsyncIterator[tuple[KubeClient, list[str]]]:
    """A client of a server that gives these answers in turn, and the requests that came."""
    asked: list[str] = []
    pending = iter(answers)

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path_qs}")
        return next(pending)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, KubeClient(KubeConfig(f"http://127.0.0.1:{server.port}")) as client:
        yield client, asked


def busy() -> web.Response:
    return web.json_response({"reason": "TooManyRequests"}, status=429, headers={"Retry-After": "0"})


async def test_a_busy_apiserver_is_asked_again_as_it_wishes() -> None:
    async with answering(busy(), busy(), web.json_response({"kind": "Pod"})) as (client, asked):
        assert await client.get(PODS, "one", "default") == {"kind": "Pod"}
    assert len(asked) == 3


async def test_a_busy_apiserver_is_not_asked_for_ever() -> None:
    async with answering(*(busy() for _ in range(9))) as (client, asked):
        with pytest.raises(TooManyRequests):
            await client.get(PODS, "one", "default")
    assert len(asked) == 5


async def test_an_eviction_that_is_refused_is_the_callers_to_repeat() -> None:
    async with answering(busy()) as (client, asked):
        with pytest.raises(TooManyRequests):
            await client.evict("one", "default")
    assert asked == ["POST /api/v1/namespaces/default/pods/one/eviction"]


async def test_a_list_whose_pages_expired_is_read_in_one_piece() -> None:
    first = {"metadata": {"continue": "next", "resourceVersion": "1"}, "items": [1]}
    whole = {"metadata": {"resourceVersion": "2"}, "items": [1, 2]}
    expired = web.json_response({"reason": "Expired"}, status=410)
    async with answering(web.json_response(first), expired, web.json_response(whole)) as (client, asked):
        assert await client.list(PODS, "default", page=1) == ([1, 2], "2")
    assert asked[1:] == [
        "GET /api/v1/namespaces/default/pods?limit=1&continue=next",
        "GET /api/v1/namespaces/default/pods",
    ]


async def test_an_answer_that_is_no_json_is_a_kube_error() -> None:
    async with answering(web.Response(text="<html>")) as (client, _):
        with pytest.raises(KubeError, match="not answered in JSON"):
            await client.get(PODS, "one", "default")


# Recorded from a kube-apiserver 1.34.
BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"79"},'
    b'"spec":{"containers":null},"status":{}}}'
)
EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version: 1 (74)","reason":"Expired","code":410}}'
)


def test_a_bookmark_is_no_pod_and_still_tells_its_version() -> None:
    kind, mark = event_decoder(Pod)(BOOKMARK)
    assert (kind, mark.metadata.resource_version) == ("BOOKMARK", "79")


@pytest.mark.parametrize("subset", [None, Pod])
def test_an_error_in_a_watch_is_raised_whatever_is_watched(subset: type[Pod] | None) -> None:
    with pytest.raises(Gone, match="too old resource version"):
        event_decoder(subset)(EXPIRED)


@pytest.mark.parametrize("line", [b'{"type":"ADDED","obj', b'{"type":"ADDED","object":{"metadata":{},"spec":"none"}}'])
def test_a_line_that_cannot_be_read_is_a_kube_error(line: bytes) -> None:
    with pytest.raises(KubeError, match="watch"):
        event_decoder(Pod)(line)


def test_a_store_finds_objects_by_what_its_indexes_say() -> None:
    store: Store[str] = Store({"first": lambda word: word[:1] or None, "length": lambda word: str(len(word))})
    for key, word in (("a", "apple"), ("b", "plum"), ("c", "pear"), ("d", "")):
        store.put(key, word)
    assert sorted(store.by("first", "p")) == ["pear", "plum"]
    assert store.put("b", "apricot") == "plum"
    assert (store.by("first", "p"), sorted(store.by("first", "a"))) == (["pear"], ["apple", "apricot"])
    assert store.pop("c") == "pear"
    assert store.pop("c") is None
    assert (store.by("first", "p"), store.by("length", "4")) == ([], [])
    assert (len(store), set(store.keys())) == (3, {"a", "b", "d"})


def test_a_burst_goes_out_at_once_and_then_at_the_rate() -> None:
    limit = RateLimit(qps=100, burst=3)
    assert [limit.reserve(now=50.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.01, 0.02])


def test_a_pause_earns_a_burst_and_no_more() -> None:
    limit = RateLimit(qps=100, burst=3)
    for _ in range(10):
        limit.reserve(now=50.0)
    assert [limit.reserve(now=90.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.01])


async def test_requests_in_the_background_let_the_others_pass() -> None:
    limit = RateLimit(qps=100, burst=1)
    order: list[str] = []

    async def take(name: str, background: bool) -> None:
        await limit.take(background=background)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(take("background", True))
        await asyncio.sleep(0)
        for _ in range(3):
            group.create_task(take("urgent", False))
    assert order[:6].count("urgent") == 3


class Worker:
    """Handles keys of a queue; can be held, and can fail."""

    def __init__(self, failures: dict[str, list[Exception]] | None = None) -> None:
        self.handled: list[str] = []
        self.busy: set[str] = set()
        self.started = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.progress = asyncio.Event()
        self.failures = failures or {}
        self.queue = WorkQueue("test", self._handle, concurrency=2)

    async def _handle(self, key: str) -> None:
        assert key not in self.busy, "one worker at a time per key"
        self.busy.add(key)
        self.started.set()
        try:
            await self.free.wait()
            if self.failures.get(key):
                raise self.failures[key].pop()
            self.handled.append(key)
            self.progress.set()
        finally:
            self.busy.discard(key)

    async def until(self, count: int) -> list[str]:
        runner = asyncio.create_task(self.queue.run())
        try:
            async with asyncio.timeout(60):
                while len(self.handled) < count:
                    await self.progress.wait()
                    self.progress.clear()
        finally:
            runner.cancel()
            await asyncio.wait([runner])
        return self.handled


async def test_a_key_that_waits_is_handled_once_however_often_it_is_added() -> None:
    worker = Worker()
    for key in "aabab":
        worker.queue.add(key)
    assert await worker.until(2) == ["a", "b"]


async def test_a_key_added_while_it_is_handled_is_handled_again() -> None:
    worker = Worker()
    worker.free.clear()
    worker.queue.add("a")

    async def meddle() -> None:
        await worker.started.wait()
        worker.queue.add("a")
        worker.queue.add("a")
        worker.free.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(meddle())
        handled = await worker.until(2)
    assert handled == ["a", "a"]


async def test_a_failed_key_is_tried_again_and_holds_up_nobody() -> None:
    worker = Worker({"bad": [KubeError(500, "InternalError", "no"), ValueError("a bug")]})
    worker.queue.add("bad")
    worker.queue.add("good")
    assert await worker.until(2) == ["good", "bad"]


async def test_a_key_can_be_put_off() -> None:
    worker = Worker()
    worker.queue.add_after("later", 0.02)
    worker.queue.add("now")
    assert await worker.until(2) == ["now", "later"]

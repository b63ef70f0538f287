"""The parts of the Kubernetes client that need no apiserver: configuration, rate limit, work queue."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.kube import KubeConfig, KubeConfigError, KubeError, WorkQueue
from bigfleet.kube.errors import AlreadyExists, Conflict, Gone, NotFound, error_from_status
from bigfleet.kube.ratelimit import RateLimit


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


async def test_a_burst_goes_out_at_once_and_then_at_the_rate() -> None:
    limit = RateLimit(qps=100, burst=5)
    clock = asyncio.get_running_loop().time
    start = clock()
    for _ in range(5):
        await limit.take()
    assert clock() == pytest.approx(start, abs=0.009)
    for _ in range(5):
        await limit.take()
    assert clock() - start >= 0.045


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
            async with asyncio.timeout(5):
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

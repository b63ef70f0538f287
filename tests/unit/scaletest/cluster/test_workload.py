"""The workload container answers for its processes: it is Ready without being filled, and knows one that hangs."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from scaletest.cluster import workload
from scaletest.cluster.deaths import BigFleetDied, HarnessDied
from scaletest.cluster.ports import HEALTH_PORT
from scaletest.supervise import health
from scaletest.supervise.forks import Fork
from scaletest.supervise.health import SILENT_SECONDS, START_SECONDS, Vitals
from tests.loopback import own_addresses
from tests.patience import eventually


class Process(Fork):
    """One of the four, in this process: waits for `go`, then answers about its health, until it hangs."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, pid=0, go_fd=-1, output_fd=-1)
        self.spares: Sequence[Process] = ()
        self.gone = False
        self.hangs = False
        self._address = address
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._output = asyncio.StreamReader()
        self._going: asyncio.Task[None] | None = None

    def go(self) -> None:
        self.gone = True
        self._going = asyncio.create_task(self._serve())

    async def output(self) -> asyncio.StreamReader:
        return self._output

    async def wait(self) -> int:
        return await self._ended

    def send_signal(self, number: int) -> None:
        if self._going:
            self._going.cancel()
        if not self._ended.done():
            self._output.feed_eof()
            self._ended.set_result(-number)

    async def _serve(self) -> None:
        async def answer(_: web.Request) -> web.Response:
            while self.hangs:
                await asyncio.sleep(0.1)
            return web.Response(text="ok")

        app = web.Application()
        app.add_routes([web.get("/healthz", answer), web.get("/readyz", answer)])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        host, _, port = self._address.rpartition(":")
        await web.TCPSite(runner, host, int(port)).start()
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()


@pytest.fixture
def pod_ip() -> Iterator[str]:
    with own_addresses() as (address, _):
        yield address


class Container:
    """Container `workload` over such processes."""

    task: "asyncio.Future[None]"

    def __init__(self, pod_ip: str, shared_dir: Path, http: aiohttp.ClientSession) -> None:
        self.processes = {name: Process(name, f"{pod_ip}:{port}") for name, port in workload._PORTS.items()}
        for name, number in workload._SPARES.items():
            self.processes[name].spares = [Process(name, f"{pod_ip}:{workload._PORTS[name]}") for _ in range(number)]
        self.shared_dir = shared_dir
        self._url = f"http://{pod_ip}:{HEALTH_PORT}"
        self._http = http

    async def ask(self, path: str) -> tuple[int, str]:
        async with self._http.get(f"{self._url}/{path}") as response:
            return response.status, await response.text()

    async def all_run(self) -> None:
        (self.shared_dir / "apiserver-ready").touch()
        await eventually(lambda: self.processes["load-driver"].gone)
        (self.shared_dir / "demand-ready").touch()
        await eventually(lambda: self.processes["operator"].gone)
        await eventually(lambda: self.answers("readyz", 200))

    async def ending(self) -> BaseException:
        """What the container ends with."""
        async with asyncio.timeout(20):
            [ended] = await asyncio.gather(self.task, return_exceptions=True)
        assert isinstance(ended, BaseException)
        return ended

    async def answers(self, path: str, status: int) -> bool:
        try:
            return (await self.ask(path))[0] == status
        except aiohttp.ClientError:
            return False


@asynccontextmanager
async def container(pod_ip: str, shared_dir: Path, **settings: Any) -> AsyncIterator[Container]:
    options = workload.WorkloadOptions(
        cluster_id="kwok-cluster-0",
        pod_ip=pod_ip,
        shared_dir=shared_dir,
        shard_addrs="shard:7780",
        provider_addr="provider:7800",
        load_profile=shared_dir / "profile.yaml",
    )
    async with aiohttp.ClientSession() as http:
        made = Container(pod_ip, shared_dir, http)
        made.task = asyncio.ensure_future(workload.serve(options, made.processes, **settings))
        try:
            yield made
        finally:
            made.task.cancel()
            await asyncio.gather(made.task, return_exceptions=True)


async def test_it_is_ready_when_its_caches_are_filled_and_does_not_wait_for_the_demand(
    pod_ip: str, tmp_path: Path
) -> None:
    async with container(pod_ip, tmp_path) as made:
        await eventually(lambda: made.answers("healthz", 200))
        assert await made.ask("readyz") == (503, "starting"), "its cluster is not there yet"
        (tmp_path / "apiserver-ready").touch()
        await eventually(lambda: made.answers("readyz", 200))
        assert not made.processes["operator"].gone
        (tmp_path / "demand-ready").touch()
        await eventually(lambda: made.processes["operator"].gone)
        assert await made.answers("readyz", 200)


@pytest.mark.parametrize("name", ["load-driver", "operator"])
async def test_a_process_that_hangs_makes_it_unready_by_name_but_is_not_dead_at_once(
    pod_ip: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ASK_SECONDS", 1.0)
    async with container(pod_ip, tmp_path) as made:
        await made.all_run()
        made.processes[name].hangs = True
        status, words = await made.ask("readyz")
        assert status == 503
        assert words.startswith(f"{name} has not answered for ")
        assert await made.answers("healthz", 200)
        made.processes[name].hangs = False
        assert await made.answers("readyz", 200)


async def test_the_operator_starts_without_the_whole_demand_rather_than_never(pod_ip: str, tmp_path: Path) -> None:
    async with container(pod_ip, tmp_path, demand_seconds=0.2) as made:
        (tmp_path / "apiserver-ready").touch()
        await eventually(lambda: made.processes["operator"].gone)
        assert not (tmp_path / "demand-ready").exists()


def test_a_process_is_dead_after_a_minute_of_silence_and_starts_for_five() -> None:
    vitals = Vitals(heard=100)
    assert vitals.ready(100 + START_SECONDS) and vitals.alive(100 + START_SECONDS)
    assert not vitals.ready(101 + START_SECONDS) and not vitals.alive(101 + START_SECONDS)
    vitals.note(True, 200)
    vitals.note(False, 210)
    assert not vitals.ready(210)
    assert vitals.alive(200 + SILENT_SECONDS)
    assert not vitals.alive(201 + SILENT_SECONDS)


@pytest.mark.parametrize("name", ["load-driver", "node-creator"])
async def test_a_process_of_the_harness_that_dies_is_replaced_and_bigfleets_live_on(
    pod_ip: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ASK_SECONDS", 1.0)
    async with container(pod_ip, tmp_path) as made:
        await made.all_run()
        first, (second, third) = made.processes[name], made.processes[name].spares
        assert not second.gone
        first.send_signal(signal.SIGKILL)
        await eventually(lambda: second.gone)
        await eventually(lambda: made.answers("readyz", 200))
        assert not made.task.done() and not third.gone
        second.hangs = True
        assert (await made.ask("readyz"))[1].startswith(f"{name} has not answered"), "the one that runs now is asked"
        second.send_signal(signal.SIGKILL)
        await eventually(lambda: third.gone)
        third.send_signal(signal.SIGKILL)
        ended = await made.ending()
        assert isinstance(ended, HarnessDied)
        assert (ended.exit_code, ended.name) == (71, name)


@pytest.mark.parametrize("name", ["operator", "pod-controller"])
async def test_the_death_of_a_process_of_bigfleets_ends_the_container(pod_ip: str, tmp_path: Path, name: str) -> None:
    async with container(pod_ip, tmp_path) as made:
        await made.all_run()
        made.processes[name].send_signal(signal.SIGKILL)
        ended = await made.ending()
        assert isinstance(ended, BigFleetDied)
        assert (ended.exit_code, ended.name) == (70, name)
        for process in made.processes.values():
            assert not any(spare.gone for spare in process.spares), "nobody takes over when all are stopped"


async def test_a_spare_that_dies_while_it_waits_is_not_missed(pod_ip: str, tmp_path: Path) -> None:
    async with container(pod_ip, tmp_path) as made:
        await eventually(lambda: made.answers("healthz", 200))
        first, (second, third) = made.processes["load-driver"], made.processes["load-driver"].spares
        second.send_signal(signal.SIGKILL)
        await made.all_run()
        first.send_signal(signal.SIGKILL)
        await eventually(lambda: third.gone)
        assert not second.gone and not made.task.done()


async def test_one_that_dies_before_its_turn_is_replaced_when_its_turn_comes(pod_ip: str, tmp_path: Path) -> None:
    async with container(pod_ip, tmp_path) as made:
        await eventually(lambda: made.answers("healthz", 200))
        first, (second, _) = made.processes["load-driver"], made.processes["load-driver"].spares
        first.send_signal(signal.SIGKILL)
        (tmp_path / "apiserver-ready").touch()
        await eventually(lambda: second.gone)
        assert not first.gone

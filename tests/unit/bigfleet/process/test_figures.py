"""A process's own figures: as the kernel counts them, growing only, and absent where the kernel is silent."""

import os
import threading
import time
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.process import daemon
from bigfleet.process.figures import ProcessFigures, show_process_figures


class Kernel:
    """A /proc whose threads come and go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "self" / "task").mkdir(parents=True)

    def thread(self, number: int, waited_seconds: float) -> None:
        directory = self.root / "self" / "task" / str(number)
        directory.mkdir(exist_ok=True)
        (directory / "schedstat").write_text(f"5000000 {round(waited_seconds * 1e9)} 17\n")

    def ends(self, number: int) -> None:
        directory = self.root / "self" / "task" / str(number)
        (directory / "schedstat").unlink()
        directory.rmdir()


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def shown(figures: ProcessFigures) -> dict[str, float]:
    return {sample.name: sample.value for family in figures.collect() for sample in family.samples}


def delay(figures: ProcessFigures) -> float:
    return shown(figures)["bigfleet_process_run_delay_seconds_total"]


def test_what_ended_threads_waited_is_kept(kernel: Kernel) -> None:
    figures = ProcessFigures(kernel.root)
    kernel.thread(1, 1.0)
    kernel.thread(2, 0.5)
    assert delay(figures) == 1.5
    kernel.ends(2)
    kernel.thread(3, 0.25)
    assert delay(figures) == 1.75
    kernel.ends(3)
    kernel.thread(1, 2.0)
    assert delay(figures) == 2.75


def test_a_thread_that_takes_the_number_of_another_adds_to_it(kernel: Kernel) -> None:
    figures = ProcessFigures(kernel.root)
    kernel.thread(1, 3.0)
    assert delay(figures) == 3.0
    kernel.thread(1, 0.5)
    assert delay(figures) == 3.5


def test_it_grows_only_while_real_threads_come_and_go() -> None:
    figures = ProcessFigures()
    before = 0.0
    for _ in range(20):
        threads = [threading.Thread(target=sum, args=(range(10_000),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        now = delay(figures)
        assert now >= before
        before = now
        for thread in threads:
            thread.join()
        assert delay(figures) >= now


def test_a_kernel_that_does_not_count_is_not_quoted(kernel: Kernel) -> None:
    assert shown(ProcessFigures(kernel.root)).keys() == {"bigfleet_process_cpu_seconds_total"}
    assert shown(ProcessFigures(kernel.root / "none")).keys() == {"bigfleet_process_cpu_seconds_total"}


def test_it_is_this_process_that_is_measured() -> None:
    figures = shown(ProcessFigures())
    assert figures["bigfleet_process_cpu_seconds_total"] == pytest.approx(time.process_time(), abs=1.0)
    assert 10 * 2**20 < figures["bigfleet_process_resident_bytes"] < 64 * 2**30
    assert time.time() - 86_400 < figures["bigfleet_process_start_time_seconds"] <= time.time() + 1
    assert figures["bigfleet_process_start_time_seconds"] == pytest.approx(_created(), abs=2.0)


def _created() -> float:
    """The kernel gives a process's directory the time at which somebody first looked; the boot's clock is exact."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


async def test_a_registry_that_is_served_twice_shows_them_once() -> None:
    registry = CollectorRegistry()
    show_process_figures(registry)
    servers = [await daemon.serve_metrics("127.0.0.1:0", registry) for _ in range(2)]
    url = f"http://127.0.0.1:{daemon.port_of(servers[1])}/metrics"
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        text = await answer.text()
    assert text.count("\nbigfleet_process_cpu_seconds_total ") == 1
    for server in servers:
        await server.cleanup()

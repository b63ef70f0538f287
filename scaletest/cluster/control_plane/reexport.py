"""One metrics port for a whole control plane: a short allow-list of its processes' series, and what they use."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import aiohttp
import structlog
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scaletest.cluster.control_plane.exposition import reduce_apiserver, reduce_etcd, reduce_scheduler
from scaletest.components import apiserver, etcd, scheduler
from scaletest.components.component import Component
from scaletest.components.endpoints import Endpoints
from scaletest.supervise.children import Children

# A second scrape within this time gets the same answer: an apiserver's exposition is half a megabyte.
_FRESH_SECONDS = 5.0
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_REDUCE: dict[str, Callable[[str], list[Metric]]] = {
    scheduler.NAME: reduce_scheduler,
    apiserver.NAME: reduce_apiserver,
    etcd.NAME: reduce_etcd,
}

log = structlog.get_logger(__name__)


class ReExport(Collector):
    """Scrapes those components that have metrics when it is scraped; one that cannot be scraped has `up` 0."""

    def __init__(self, endpoints: Endpoints, children: Children, components: Iterable[Component]) -> None:
        self._endpoints = endpoints
        self._children = children
        self._sources = {component.name: component for component in components if component.metrics_url}
        self._latest = {process: _REDUCE[process]("") for process in self._sources}
        self._up = dict.fromkeys(self._sources, 0)
        self._fresh_until = 0.0
        self._refreshing = asyncio.Lock()

    def collect(self) -> Iterator[Metric]:
        for families in self._latest.values():
            yield from families
        up = GaugeMetricFamily(
            "scaletest_control_plane_scrape_up", "Whether the last scrape of this process worked.", labels=["process"]
        )
        for process, state in self._up.items():
            up.add_metric([process], state)
        yield up
        yield from process_usage([("supervisor", os.getpid()), *((child.name, child.pid) for child in self._children)])

    async def refresh(self) -> None:
        """Scrape every process that runs; returns at once when that was done a moment ago."""
        clock = asyncio.get_running_loop().time
        async with self._refreshing:
            if clock() < self._fresh_until:
                return
            running = {child.name for child in self._children}
            self._up.update(dict.fromkeys(self._sources.keys() - running, 0))
            await asyncio.gather(*(self._scrape(process) for process in self._sources if process in running))
            self._fresh_until = clock() + _FRESH_SECONDS

    async def _scrape(self, process: str) -> None:
        try:
            text = await self._endpoints.metrics(self._sources[process])
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("scrape failed", source=process, error=str(error) or type(error).__name__)
            self._up[process] = 0
            return
        self._latest[process] = _REDUCE[process](text)
        self._up[process] = 1


def process_usage(processes: Iterable[tuple[str, int]]) -> list[Metric]:
    """CPU seconds and resident memory of (name, pid), from /proc; a process that is gone is left out."""
    cpu = CounterMetricFamily("process_cpu_seconds", "User and system CPU time.", labels=["process"])
    memory = GaugeMetricFamily("process_resident_memory_bytes", "Resident memory.", labels=["process"])
    for name, pid in processes:
        try:
            # The command in brackets may hold spaces; fields are counted behind it.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        user_ticks, system_ticks, resident_pages = int(fields[11]), int(fields[12]), int(fields[21])
        cpu.add_metric([name], (user_ticks + system_ticks) / _CLOCK_TICKS)
        memory.add_metric([name], resident_pages * _PAGE_BYTES)
    return [cpu, memory]

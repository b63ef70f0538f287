"""What a process takes from its machine, as the kernel counts it: CPU, memory, and the time it waited for a core."""

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakSet

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

_PROC = Path("/proc")
# Of /proc/self/stat, behind the program's name, which may contain anything: when the process began, in clock ticks.
_START_TICKS = 19

_measured: WeakSet[CollectorRegistry] = WeakSet()


def show_process_figures(registry: CollectorRegistry) -> None:
    """Let a registry show this process; a second time changes nothing."""
    if registry not in _measured:
        _measured.add(registry)
        registry.register(ProcessFigures())


class ProcessFigures:
    """Read when metrics are asked for, never in between. What this kernel does not tell is not shown."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._self = proc / "self"
        self._run_delay = _RunDelay(self._self / "task")
        self._start = _start_time(proc)

    def collect(self) -> Iterable[Metric]:
        name = "bigfleet_process_cpu_seconds_total"
        yield CounterMetricFamily(name, "CPU that this process has used, all threads.", time.process_time())
        delay = self._run_delay.seconds()
        if delay is not None:
            name = "bigfleet_process_run_delay_seconds_total"
            yield CounterMetricFamily(name, "Time that threads of this process could run and had no core.", delay)
        resident = _resident_bytes(self._self / "statm")
        if resident is not None:
            yield GaugeMetricFamily("bigfleet_process_resident_bytes", "Memory that is in use.", resident)
        if self._start is not None:
            name = "bigfleet_process_start_time_seconds"
            yield GaugeMetricFamily(name, "When this process began, in seconds since 1970.", self._start)


class _RunDelay:
    """The kernel counts by thread and forgets those that have ended: what they had is kept, so that the sum only grows.

    Lost is what a thread waited between the last look and its end.
    """

    def __init__(self, tasks: Path) -> None:
        self._tasks = str(tasks)
        self._by_thread: dict[str, int] = {}
        self._ended = 0
        self._looking = threading.Lock()

    def seconds(self) -> float | None:
        """None if the kernel does not count it."""
        with self._looking:
            seen = self._read()
            if not seen and not self._by_thread:
                return None
            for thread, before in self._by_thread.items():
                # A thread that waited less than before is another one with the same number.
                if seen.get(thread, -1) < before:
                    self._ended += before
            self._by_thread = seen
            return (self._ended + sum(seen.values())) / 1e9

    def _read(self) -> dict[str, int]:
        """Nanoseconds by thread."""
        seen = {}
        try:
            threads = os.listdir(self._tasks)  # noqa: PTH208 (a path for each thread takes longer than its figures)
        except OSError:
            return {}
        for thread in threads:
            try:
                file = os.open(f"{self._tasks}/{thread}/schedstat", os.O_RDONLY)
            except OSError:
                continue  # it has just ended
            try:
                seen[thread] = int(os.read(file, 100).split()[1])
            except (OSError, IndexError, ValueError):
                continue
            finally:
                os.close(file)
        return seen


def _resident_bytes(statm: Path) -> int | None:
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def _start_time(proc: Path) -> float | None:
    try:
        ticks = int((proc / "self" / "stat").read_text().rpartition(")")[2].split()[_START_TICKS])
        boot = next(line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError, StopIteration):
        return None

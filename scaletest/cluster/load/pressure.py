"""CPU pressure of the machine we are on, which a container sees as well: how long something waited for a core (PSI)."""

import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

SOURCE = Path("/proc/pressure/cpu")
_WAITED = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)


def waited_seconds(source: Path = SOURCE) -> float | None:
    """Since boot; None where the kernel keeps no count."""
    try:
        found = _WAITED.search(source.read_text())
    except OSError:
        return None
    return int(found.group(1)) / 1e6 if found else None


class HostPressure(Collector):
    """For the self-check of a run whose hosts are not the runner's own machine."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        waited = waited_seconds()
        if waited is not None:
            text = "Time in which something on this host waited for a core."
            yield CounterMetricFamily("scaletest_host_cpu_waiting_seconds", text, value=waited)

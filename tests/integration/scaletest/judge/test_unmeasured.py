"""What was not measured is −1 in the summary (BF-0017), by the real Prometheus's own arithmetic."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
import yaml
from prometheus_client import CollectorRegistry

from bigfleet.process.daemon import serve_metrics
from bigfleet.process.parentdeath import dying_with_us
from scaletest import toolchain
from scaletest.cluster.load.bind_latency import BindLatency
from scaletest.cluster.witness.seen import SeenPod
from scaletest.errors import PrometheusUnreachable
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.readings.readings import read_informational
from tests.integration.players.apiserver import free_ports
from tests.patience import eventually

pytestmark = pytest.mark.integration

LONGEST, P99 = "internalBindingLatencyMaxSeconds", "internalBindingLatencyP99Seconds"
WINDOW_SECONDS = 30


@pytest_asyncio.fixture
async def load_driver() -> AsyncIterator[tuple[BindLatency, str]]:
    """What a load-driver measures, and where it shows it."""
    registry = CollectorRegistry()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    latency = BindLatency(registry)
    server = await serve_metrics(address, registry)
    yield latency, address
    await server.cleanup()


@pytest_asyncio.fixture
async def prometheus(tmp_path: Path, load_driver: tuple[BindLatency, str]) -> AsyncIterator[Prometheus]:
    """The real one, which has seen the load-driver."""
    job = {"job_name": "bigfleet", "scrape_interval": "1s", "static_configs": [{"targets": [load_driver[1]]}]}
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump({"scrape_configs": [job]}))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    tools = await toolchain.ensure(["prometheus"])
    process = await asyncio.create_subprocess_exec(
        *dying_with_us([str(tools.path("prometheus")), f"--config.file={config}"]),
        *(f"--web.listen-address={address}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    made = Prometheus(f"http://{address}")

    async def scrapes() -> bool:
        try:
            return await made.value("up") == 1
        except PrometheusUnreachable:
            return False

    try:
        await eventually(scrapes, 60)
        yield made
    finally:
        process.terminate()
        await process.wait()


async def test_a_bind_latency_that_nobody_measured_is_no_latency_of_zero(
    load_driver: tuple[BindLatency, str], prometheus: Prometheus
) -> None:
    latency, _ = load_driver
    latency.arm(time.time() - 1)

    async def told() -> dict[str, float]:
        return await read_informational(prometheus, WINDOW_SECONDS, time.time())

    async def measured() -> float:
        return max(0.0, (await told())[LONGEST])

    before = await told()
    assert (before[LONGEST], before[P99]) == (-1, -1)
    waiting = SeenPod(name="web-a", uid="a", workload="web", created=time.time() - 0.5)
    latency.on_change(None, waiting)
    latency.on_change(waiting, msgspec.structs.replace(waiting, node="n1"))
    assert 0 < await eventually(measured) < 20

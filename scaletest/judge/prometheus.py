"""The run's Prometheus: instant queries, range queries, targets, snapshot. prometheus-api-client behind one port."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from scaletest.errors import PrometheusUnreachable

# What the certificate of its pod says, whatever address leads there: a pod's own, or this end of a port-forward.
SERVER_NAME = "prometheus.bigfleet"
_QUERY_SECONDS = 5
# At once, after 2 s, after 4 s.
_ATTEMPTS_MORE = 3
_SNAPSHOT_SECONDS = 120
# BigFleet is scraped as often.
_STEP_SECONDS = 5
# Prometheus refuses more than 11,000 of a series.
_MOST_POINTS = 10_000

Point = tuple[float, float]
Series = tuple[dict[str, str], list[Point]]


@dataclass(frozen=True)
class Sample:
    """One series of an answer."""

    labels: dict[str, str]
    value: float


class _NamedServer(HTTPAdapter):
    """Goes to any address, and talks there to `SERVER_NAME` only."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, server_hostname=SERVER_NAME, assert_hostname=SERVER_NAME)


class Prometheus:
    """Asks over TLS with the runner's own certificate; a replay needs none. Its library blocks, hence the threads."""

    def __init__(self, url: str, tls_dir: Path | None = None, *, way_may_break: bool = False) -> None:
        session = requests.Session()
        if tls_dir:
            session.verify = str(tls_dir / "ca.crt")
            session.cert = (str(tls_dir / "tls.crt"), str(tls_dir / "tls.key"))
        session.trust_env = False
        self.url = url
        self._session = session
        # Settle and soak poll anyway, so a failed query is an answer, not something to repeat in place; unless the way
        # is one that breaks off for a second now and then. No query changes anything.
        retry = Retry(total=_ATTEMPTS_MORE, backoff_factor=1, allowed_methods=None) if way_may_break else Retry(total=0)
        self._connection = PrometheusConnect(
            url=url, session=session, retry=retry, timeout=_QUERY_SECONDS, method="POST"
        )
        if tls_dir:
            session.mount(url, _NamedServer(max_retries=retry))

    async def samples(self, query: str, at: float | None = None) -> list[Sample]:
        """All series of an instant query, NaN and infinities included."""
        params = {"time": f"{at:.3f}"} if at is not None else None
        answer = await self._call(self._connection.custom_query, query, params)
        return [Sample(row["metric"], float(row["value"][1])) for row in answer]

    async def value(self, query: str, at: float | None = None) -> float | None:
        """The one finite number that a query yields; None if there is none."""
        found = await self.samples(query, at)
        if len(found) != 1 or not math.isfinite(found[0].value):
            return None
        return found[0].value

    async def growth(self, counter: str, start: float, end: float) -> float | None:
        """By how much a counter grew over all its series, resets included; None if it has no series.

        Added up from samples, because rate() and increase() extrapolate: they invent or hide small counts.
        """
        found = await self.series(counter, start, end)
        return sum(grown([value for _, value in points]) for _, points in found) if found else None

    async def growth_by(self, counter: str, label: str, start: float, end: float) -> dict[str, float]:
        """The same for each value of a label."""
        growths: dict[str, float] = {}
        for labels, points in await self.series(counter, start, end):
            name = labels.get(label, "")
            growths[name] = growths.get(name, 0.0) + grown([value for _, value in points])
        return growths

    async def series(self, query: str, start: float, end: float, step_seconds: float = _STEP_SECONDS) -> list[Series]:
        """Every series of a query over a while: its labels, and its points as (unix seconds, value)."""
        step = max(step_seconds, math.ceil((end - start) / _MOST_POINTS))
        window = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC), str(step)
        rows = await self._call(self._connection.custom_query_range, query, *window)
        return [(row["metric"], [(float(at), float(value)) for at, value in row["values"]]) for row in rows]

    async def raw(self, selector: str, start: float, end: float) -> list[Series]:
        """Every sample as it was scraped, with its own time."""
        seconds = max(1, math.ceil(end - start))
        answer = await self._call(self._connection.custom_query, f"{selector}[{seconds}s]", {"time": f"{end:.3f}"})
        return [(row["metric"], [(float(at), float(value)) for at, value in row["values"]]) for row in answer]

    async def snapshot(self) -> str:
        """Write the TSDB, head included, and return the snapshot's name."""

        def take() -> str:
            answer = self._session.post(f"{self.url}/api/v1/admin/tsdb/snapshot", timeout=_SNAPSHOT_SECONDS)
            answer.raise_for_status()
            return str(answer.json()["data"]["name"])

        return str(await self._call(take))

    async def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return await asyncio.to_thread(function, *arguments)
        except (requests.RequestException, PrometheusApiClientException, OSError) as error:
            raise PrometheusUnreachable(f"Prometheus at {self.url}: {error}") from error


def grown(values: Sequence[float]) -> float:
    """What a counter counted between its first and last sample; one that fell was restarted from zero."""
    return sum(after - before if after >= before else after for before, after in pairwise(values))

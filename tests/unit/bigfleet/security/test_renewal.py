"""When a certificate is renewed, and what happens when nobody renews it."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from bigfleet.security.renewal import Renewal, Validity, keep_renewed

BEGIN = datetime(2026, 11, 17, tzinfo=UTC)
DAY = Validity(BEGIN, BEGIN + timedelta(hours=24))


def test_a_day_is_renewed_after_sixteen_hours() -> None:
    assert DAY.renew_at == BEGIN + timedelta(hours=16)


@pytest.mark.parametrize(("hours", "seconds"), [(16, 60.0), (23.9, 36.0), (24, 0.2), (30, 0.2)])
def test_a_failure_is_tried_again_ever_sooner(hours: float, seconds: float) -> None:
    assert DAY.retry_in(BEGIN + timedelta(hours=hours)) == pytest.approx(seconds)


def test_life_begins_when_the_file_was_written(tmp_path: Path) -> None:
    Authority.create("test").issue(Identity("admin"), lifetime=timedelta(hours=3)).write(tmp_path)
    written = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    os.utime(tmp_path / "tls.crt", (written.timestamp(), written.timestamp()))
    life = Validity.of(tmp_path / "tls.crt")
    assert life.begin == written
    assert timedelta(hours=3.9) < life.end - life.begin < timedelta(hours=4.1)


@pytest.mark.parametrize("half", [{"issuer_addr": "127.0.0.1:1"}, {"token_file": Path("token")}], ids=str)
def test_half_of_an_enrolment_is_refused(half: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="together"):
        Renewal(**half)


async def test_an_issuer_that_is_away_is_counted_and_asked_again(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Authority.create("test").issue(Identity("admin"), lifetime=timedelta(seconds=1)).write(tmp_path)
    (tmp_path / "token").write_text("token")
    before = (tmp_path / "tls.crt").read_bytes()
    renewing = asyncio.create_task(keep_renewed(tmp_path, Renewal("127.0.0.1:1", tmp_path / "token"), registry))

    def failures() -> float:
        return registry.get_sample_value("bigfleet_certificate_renewals_total", {"outcome": "failed"}) or 0

    async with asyncio.timeout(30):
        while failures() < 2:
            await asyncio.sleep(0.05)
    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
    assert (tmp_path / "tls.crt").read_bytes() == before
    assert (registry.get_sample_value("bigfleet_certificate_expiry_seconds") or 0) > 0

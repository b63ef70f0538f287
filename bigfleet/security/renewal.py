"""Renews a pod's certificate after two thirds of its life, by enrolling again; running processes load the new one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from bigfleet.security.files import CA_CERTIFICATE, CERTIFICATE

# Of its life, when a certificate is renewed.
_PART = 2 / 3
# A certificate that an issuer clock has made too short must not make us ask without pause.
_SHORTEST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 60.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Renewal:
    """Where a process renews its pod's certificate."""

    issuer_addr: str | None = None
    """`host:port` of the run's issuer; None: another program renews what lies in tls_dir."""
    token_file: Path | None = None
    """The pod's bound ServiceAccount token, of audience `bigfleet-issuer`."""

    def __post_init__(self) -> None:
        if bool(self.issuer_addr) != bool(self.token_file):
            raise ValueError("renewal takes issuer_addr and token_file together")


@dataclass(frozen=True)
class Validity:
    """From when to when a certificate is good, as far as we are concerned."""

    begin: datetime
    end: datetime

    @classmethod
    def of(cls, certificate: Path) -> "Validity":
        """It begins when the file was written: certificates are dated back, for clocks that are behind."""
        from cryptography import x509  # most processes never come here

        end = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
        return cls(datetime.fromtimestamp(certificate.stat().st_mtime, UTC), end)

    @property
    def renew_at(self) -> datetime:
        return self.begin + (self.end - self.begin) * _PART

    def retry_in(self, now: datetime) -> float:
        """Seconds until the next try after one that failed: ten more before the end, while there is time."""
        left = (self.end - now).total_seconds()
        return min(_LONGEST_PAUSE_SECONDS, max(_SHORTEST_PAUSE_SECONDS, left / 10))


def _now() -> datetime:
    return datetime.now(UTC)


async def keep_renewed(
    tls_dir: Path, renewal: Renewal, registry: CollectorRegistry, now: Callable[[], datetime] = _now
) -> None:
    """Renew what lies in `tls_dir` for ever."""
    from bigfleet.security.enrol_pod import EnrollOptions, EnrolmentFailed, enroll

    if not renewal.issuer_addr or not renewal.token_file:
        raise ValueError("there is no issuer to renew a certificate")
    expiry = Gauge("bigfleet_certificate_expiry_seconds", "When our certificate ends, in Unix time.", registry=registry)
    renewals = Counter("bigfleet_certificate_renewals_total", "Renewals of it.", ["outcome"], registry=registry)
    for outcome in ("renewed", "failed"):
        renewals.labels(outcome)
    while True:
        life = Validity.of(tls_dir / CERTIFICATE)
        expiry.set(life.end.timestamp())
        await asyncio.sleep((life.renew_at - now()).total_seconds())
        # A short deadline: an issuer that is away is asked again soon, and said so.
        deadline = max(1.0, life.retry_in(now()))
        ca_file = tls_dir / CA_CERTIFICATE
        asked = EnrollOptions(renewal.issuer_addr, renewal.token_file, ca_file, tls_dir, deadline)
        try:
            await enroll(asked)
        except (EnrolmentFailed, OSError) as error:
            renewals.labels("failed").inc()
            left = timedelta(seconds=int((life.end - now()).total_seconds()))
            log.error("certificate not renewed", reason=str(error), ends_in=str(left))
            await asyncio.sleep(life.retry_in(now()))
        else:
            renewals.labels("renewed").inc()

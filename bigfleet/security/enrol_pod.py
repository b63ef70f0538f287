"""The init container of every pod with an identity: makes a key and has the run's issuer certify it."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import structlog
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    RetryError,
    retry_if_exception_type,
    stop_before_delay,
    wait_random_exponential,
)

from bigfleet.errors import BigFleetError
from bigfleet.security.authority import signing_request
from bigfleet.security.certificates import key_to_pem, new_key
from bigfleet.security.entitlement import ENROL_PATH, ISSUER_NAME
from bigfleet.security.files import IdentityFiles

_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=10)
# A pod starts no sooner than this after its issuer, on average half of it.
_LONGEST_WAIT_SECONDS = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class EnrollOptions:
    """Where the issuer is, and what to show it."""

    issuer_addr: str
    """`host:port` of the issuer."""
    token_file: Path
    """The pod's bound ServiceAccount token, of audience `bigfleet-issuer`."""
    ca_file: Path
    """The run's CA certificate: the only thing this pod trusts from the start."""
    out_dir: Path
    """Where `tls.crt`, `tls.key` and `ca.crt` go."""
    deadline_seconds: float = 120.0
    """How long to keep asking; the pod fails after that."""


class EnrolmentFailed(BigFleetError):
    """No certificate before the deadline; carries the last reason."""


class _TurnedDown(BigFleetError):
    """This attempt brought no certificate."""


class _Answer(msgspec.Struct):
    certificate: str = ""
    error: str = ""


async def enroll(options: EnrollOptions) -> None:
    """Write this pod's identity into `out_dir`, or raise EnrolmentFailed."""
    key = new_key()
    csr = signing_request(key)
    ca_certificate = options.ca_file.read_bytes()
    tls = ssl.create_default_context(cadata=ca_certificate.decode())
    attempts = AsyncRetrying(
        retry=retry_if_exception_type(_TurnedDown),
        stop=stop_before_delay(options.deadline_seconds),
        wait=wait_random_exponential(multiplier=0.25, max=_LONGEST_WAIT_SECONDS),
        before_sleep=_log_attempt,
    )
    try:
        async with aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as http:
            certificate: bytes = await attempts(_ask, http, tls, options, csr)
    except RetryError as error:
        raise EnrolmentFailed(
            f"no certificate from the issuer at {options.issuer_addr} within {options.deadline_seconds:g} s; "
            f"the last reason: {error.last_attempt.exception()}"
        ) from error
    IdentityFiles(certificate, key_to_pem(key), ca_certificate).write(options.out_dir)
    log.info("enrolled", out_dir=str(options.out_dir))


async def _ask(http: aiohttp.ClientSession, tls: ssl.SSLContext, options: EnrollOptions, csr: bytes) -> bytes:
    try:
        # The token is read for each attempt, because kubelets rotate it.
        body = {"csr": csr.decode(), "token": options.token_file.read_text().strip()}
        url = f"https://{options.issuer_addr}{ENROL_PATH}"
        async with http.post(url, json=body, ssl=tls, server_hostname=ISSUER_NAME) as response:
            answer = msgspec.json.decode(await response.read(), type=_Answer)
            status = response.status
    except aiohttp.ClientConnectorCertificateError as error:
        raise _TurnedDown(f"its certificate is not of this run: {error.certificate_error}") from error
    except aiohttp.ClientConnectorError as error:
        raise _TurnedDown(f"cannot connect: {error.os_error}") from error
    except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
        raise _TurnedDown(f"{type(error).__name__}: {error}") from error
    if status != 200 or not answer.certificate:
        raise _TurnedDown(f"HTTP {status}: {answer.error}")
    return answer.certificate.encode()


def _log_attempt(attempt: RetryCallState) -> None:
    error = attempt.outcome.exception() if attempt.outcome else None
    log.info("asking the issuer again", attempt=attempt.attempt_number, reason=str(error))

"""The run's issuer: trades a pod's bound ServiceAccount token for the certificate of its identity."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from bigfleet.kube import KubeClient, KubeConfig, KubeError, NotFound
from bigfleet.kube.resources import PODS, TOKEN_REVIEWS
from bigfleet.process import daemon
from bigfleet.security.authority import LEAF_LIFETIME, Authority, BadRequest
from bigfleet.security.entitlement import AUDIENCE, ENROL_PATH, ISSUER_NAME, NotEntitled, NotYet, bound_pod, host_names
from bigfleet.security.files import IdentityFiles

_MAX_BODY_BYTES = 64 * 1024
_OUTCOMES = ("issued", "malformed", "refused", "not_yet", "error")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class IssuerOptions:
    """Where the issuer listens, whom it asks, and with which CA it signs."""

    listen: str
    """`host:port` of the HTTPS server."""
    ca_dir: Path
    """Directory with `ca.crt` and `ca.key`, a mounted Secret."""
    namespace: str
    """The run's namespace: tokens from any other are refused."""
    service_account_dir: Path
    """The issuer's own token; its account may create TokenReviews and get pods of the namespace."""
    metrics_addr: str = ":8810"
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""


class EnrolRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /v1/enroll`."""

    csr: str
    token: str


class Reviewer(Protocol):
    """What the issuer asks of a Kubernetes API."""

    async def review(self, token: str) -> dict[str, Any]:
        """The status of a TokenReview for our audience."""

    async def pod(self, name: str) -> dict[str, Any]:
        """A pod of the run's namespace; raises NotFound."""


class KubeReviewer:
    """The real Reviewer."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def review(self, token: str) -> dict[str, Any]:
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        answer = await self._client.create(TOKEN_REVIEWS, body)
        status: dict[str, Any] = answer["status"]
        return status

    async def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._client.get(PODS, name, self._namespace)
        return found


class Issuer:
    """Answers enrolments. Tokens are never logged and never leave the request that brought them."""

    def __init__(
        self,
        authority: Authority,
        reviewer: Reviewer,
        namespace: str,
        registry: CollectorRegistry,
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> None:
        self._authority = authority
        self._lifetime = lifetime
        self._reviewer = reviewer
        self._namespace = namespace
        self._enrolments = Counter(
            "bigfleet_issuer_enrolments_total", "Answers to enrolments.", ["outcome"], registry=registry
        )
        for outcome in _OUTCOMES:
            self._enrolments.labels(outcome)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post(ENROL_PATH, self._enrol)
        return app

    async def _enrol(self, request: web.Request) -> web.Response:
        try:
            asked = msgspec.json.decode(await request.read(), type=EnrolRequest)
            certificate = await self._certify(asked)
        except (msgspec.DecodeError, BadRequest) as error:
            return self._turn_down("malformed", 400, str(error))
        except NotEntitled as error:
            return self._turn_down("refused", 403, str(error))
        except NotYet as error:
            return self._turn_down("not_yet", 503, str(error))
        except KubeError as error:
            return self._turn_down(
                "error", 502, f"the Kubernetes API answered the issuer with HTTP {error.status} {error.reason}"
            )
        except (aiohttp.ClientError, OSError) as error:
            return self._turn_down("error", 502, f"the issuer cannot reach the Kubernetes API: {type(error).__name__}")
        self._enrolments.labels("issued").inc()
        return web.json_response({"certificate": certificate.decode()})

    async def _certify(self, asked: EnrolRequest) -> bytes:
        bound = bound_pod(await self._reviewer.review(asked.token), self._namespace)
        try:
            pod = await self._reviewer.pod(bound.name)
        except NotFound as error:
            raise NotEntitled(f"pod {bound.name!r} is gone") from error
        names = host_names(bound, pod)
        certificate = self._authority.sign_request(
            asked.csr.encode(), bound.identity, dns_names=names.dns, ip_addresses=names.ips, lifetime=self._lifetime
        )
        log.info("certificate issued", identity=bound.identity.uri, dns=names.dns, ips=names.ips)
        return certificate

    def _turn_down(self, outcome: str, status: int, reason: str) -> web.Response:
        self._enrolments.labels(outcome).inc()
        log.warning("enrolment turned down", outcome=outcome, reason=reason)
        return web.json_response({"error": reason}, status=status)


async def start_https(app: web.Application, listen: str, authority: Authority) -> web.AppRunner:
    """Serve `app` as `issuer.bigfleet`; call `cleanup()` on the result to stop."""
    host, _, port = listen.rpartition(":")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = _server_context(authority.issue_server(ISSUER_NAME, host))
    await web.TCPSite(runner, host, int(port), ssl_context=tls).start()
    return runner


async def serve(options: IssuerOptions) -> None:
    """Answer enrolments until cancelled."""
    registry = CollectorRegistry()
    authority = Authority.load(options.ca_dir)
    listening = asyncio.Event()
    metrics = await daemon.serve_metrics(options.metrics_addr, registry, listening.is_set)
    try:
        async with KubeClient(KubeConfig.from_service_account(options.service_account_dir)) as client:
            issuer = Issuer(authority, KubeReviewer(client, options.namespace), options.namespace, registry)
            https = await start_https(issuer.application(), options.listen, authority)
            listening.set()
            log.info("issuing certificates", listen=options.listen, namespace=options.namespace)
            try:
                await daemon.watch_loop_lag(registry)
            finally:
                await https.cleanup()
    finally:
        await metrics.cleanup()


def _server_context(files: IdentityFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module only loads a key from a path. This file has no name, never reaches a disk, and needs no
    # writable file system, which the container does not have.
    with os.fdopen(os.memfd_create("issuer"), "wb") as pair:
        pair.write(files.certificate + files.private_key)
        pair.flush()
        context.load_cert_chain(f"/proc/self/fd/{pair.fileno()}")
    return context

"""An etcd member, spoken to through its JSON gateway: transactions, ranges, status."""

import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from bigfleet.security.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY

_TIMEOUT = aiohttp.ClientTimeout(total=5)
_SERVER_NAME = "coordinator.bigfleet"

Compare = Mapping[str, Any]
Operation = Mapping[str, Any]


class EtcdUnavailable(Exception):
    """The member did not answer, or has no quorum behind it."""


@dataclass(frozen=True)
class KeyValue:
    """A key with its value and the revision that wrote it."""

    key: str
    value: bytes
    mod_revision: int


@dataclass(frozen=True)
class TxnResult:
    """Which branch of a transaction ran, and what each of its ranges found (writes find nothing)."""

    succeeded: bool
    found: tuple[tuple[KeyValue, ...], ...]


@dataclass(frozen=True)
class MemberStatus:
    """What a member knows of its Raft group; `leader` is 0 while there is none."""

    member_id: int
    leader: int
    raft_term: int


def value_is(key: str, value: bytes) -> Compare:
    return {"key": _encode(key), "target": "VALUE", "result": "EQUAL", "value": _encode(value)}


def unchanged(key: str, mod_revision: int) -> Compare:
    """The key was last written by this revision; 0 means that it does not exist."""
    return {"key": _encode(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(mod_revision)}


def exists(key: str) -> Compare:
    return {"key": _encode(key), "target": "CREATE", "result": "GREATER", "create_revision": "0"}


def absent(key: str) -> Compare:
    return {"key": _encode(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}


def put(key: str, value: bytes) -> Operation:
    return {"request_put": {"key": _encode(key), "value": _encode(value)}}


def delete(key: str) -> Operation:
    return {"request_delete_range": {"key": _encode(key)}}


def read(key: str) -> Operation:
    return {"request_range": {"key": _encode(key)}}


def read_prefix(prefix: str) -> Operation:
    """All keys that start with `prefix`, which must end in a slash; sorted by key."""
    end = prefix[:-1] + chr(ord("/") + 1)
    return {"request_range": {"key": _encode(prefix), "range_end": _encode(end)}}


class EtcdClient:
    """One member. Use as an async context manager."""

    def __init__(self, address: str, tls_dir: Path | None) -> None:
        self._url = f"{'https' if tls_dir else 'http'}://{address}"
        self._tls_dir = tls_dir
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            base_url=self._url,
            connector=aiohttp.TCPConnector(ssl=_client_context(self._tls_dir) if self._tls_dir else True),
            timeout=_TIMEOUT,
            # etcd's gateway logs a warning for every TLS request that says what it accepts.
            skip_auto_headers={"Accept"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http:
            await self._http.close()

    async def status(self) -> MemberStatus:
        answer = await self._post("/v3/maintenance/status", {})
        return MemberStatus(
            member_id=int(answer["header"]["member_id"]),
            leader=int(answer.get("leader", 0)),
            raft_term=int(answer.get("raftTerm", 0)),
        )

    async def get(self, key: str) -> KeyValue | None:
        """A linearizable read: it takes a quorum."""
        answer = await self._post("/v3/kv/range", {"key": _encode(key)})
        return next(iter(_key_values(answer)), None)

    async def txn(
        self, compare: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        answer = await self._post("/v3/kv/txn", {"compare": compare, "success": success, "failure": failure})
        found = tuple(_key_values(one.get("response_range", {})) for one in answer.get("responses", ()))
        return TxnResult(bool(answer.get("succeeded")), found)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        if self._http is None:
            raise RuntimeError("EtcdClient is used outside `async with`")
        server_name = _SERVER_NAME if self._tls_dir else None
        try:
            async with self._http.post(path, data=msgspec.json.encode(body), server_hostname=server_name) as response:
                answer = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EtcdUnavailable(f"etcd at {self._url} does not answer: {type(error).__name__} {error}") from error
        if status != 200:
            raise EtcdUnavailable(f"etcd answers {path} with HTTP {status}: {answer[:300].decode(errors='replace')}")
        return msgspec.json.decode(answer)


def _key_values(range_answer: Mapping[str, Any]) -> tuple[KeyValue, ...]:
    return tuple(
        KeyValue(
            key=base64.b64decode(pair["key"]).decode(),
            value=base64.b64decode(pair.get("value", "")),
            mod_revision=int(pair["mod_revision"]),
        )
        for pair in range_answer.get("kvs", ())
    )


def _client_context(tls_dir: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls_dir / CA_CERTIFICATE))
    context.load_cert_chain(tls_dir / CERTIFICATE, tls_dir / PRIVATE_KEY)
    return context


def _encode(raw: str | bytes) -> str:
    return base64.b64encode(raw.encode() if isinstance(raw, str) else raw).decode()

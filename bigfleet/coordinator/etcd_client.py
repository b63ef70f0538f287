"""An etcd member, spoken to through its JSON gateway: transactions, ranges, members, snapshots."""

import base64
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from bigfleet.errors import BigFleetError
from bigfleet.security.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY

_TIMEOUT = aiohttp.ClientTimeout(total=5)
# A member that does not tell its own state at once hangs, and we must not go on leading for it.
_STATUS_TIMEOUT = aiohttp.ClientTimeout(total=1)
# Between two pieces of a snapshot; the whole may take as long as it takes.
_SNAPSHOT_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30)
_LONGEST_LINE = 1 << 20
SERVER_NAME = "coordinator.bigfleet"

Compare = Mapping[str, Any]
Operation = Mapping[str, Any]


class EtcdUnavailable(BigFleetError):
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

    cluster_id: int
    member_id: int
    leader: int
    raft_term: int
    revision: int = 0
    raft_index: int = 0


@dataclass(frozen=True)
class Member:
    """One of the Raft group; one that was never started has no name yet."""

    id: int
    name: str
    peer_urls: tuple[str, ...]


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
            read_bufsize=_LONGEST_LINE,
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
        answer = await self._post("/v3/maintenance/status", {}, _STATUS_TIMEOUT)
        header = answer["header"]
        return MemberStatus(
            cluster_id=int(header["cluster_id"]),
            member_id=int(header["member_id"]),
            leader=int(answer.get("leader", 0)),
            raft_term=int(answer.get("raftTerm", 0)),
            revision=int(header.get("revision", 0)),
            raft_index=int(answer.get("raftIndex", 0)),
        )

    async def get(self, key: str, *, local: bool = False) -> KeyValue | None:
        """A read that takes a quorum, or what this member alone knows, maybe a little late."""
        answer = await self._post("/v3/kv/range", {"key": _encode(key), "serializable": local})
        return next(iter(_key_values(answer)), None)

    async def members(self) -> list[Member]:
        answer = await self._post("/v3/cluster/member/list", {})
        return [
            Member(int(one["ID"]), one.get("name", ""), tuple(one.get("peerURLs", ()))) for one in answer["members"]
        ]

    async def add_member(self, peer_url: str) -> None:
        await self._post("/v3/cluster/member/add", {"peerURLs": [peer_url]})

    async def remove_member(self, member_id: int) -> None:
        await self._post("/v3/cluster/member/remove", {"ID": str(member_id)})

    async def move_leadership(self, member_id: int) -> None:
        """Make another member the Raft leader; this one must be it now."""
        await self._post("/v3/maintenance/transfer-leadership", {"targetID": str(member_id)})

    async def snapshot(self) -> AsyncIterator[bytes]:
        """The whole state, piece by piece; together they are a file that etcdutl restores, with its checksum."""
        try:
            async with self._request("/v3/maintenance/snapshot", {}, _SNAPSHOT_TIMEOUT) as response:
                if response.status != 200:
                    raise EtcdUnavailable(_refusal("/v3/maintenance/snapshot", response.status, await response.read()))
                async for line in response.content:
                    answer = msgspec.json.decode(line)
                    if "error" in answer:
                        raise EtcdUnavailable(f"etcd ended its snapshot: {answer['error']}")
                    yield base64.b64decode(answer["result"].get("blob", ""))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise EtcdUnavailable(f"etcd did not finish its snapshot: {type(error).__name__} {error}") from error

    async def txn(
        self, compare: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        answer = await self._post("/v3/kv/txn", {"compare": compare, "success": success, "failure": failure})
        found = tuple(_key_values(one.get("response_range", {})) for one in answer.get("responses", ()))
        return TxnResult(bool(answer.get("succeeded")), found)

    async def _post(self, path: str, body: Mapping[str, Any], timeout: aiohttp.ClientTimeout = _TIMEOUT) -> Any:
        try:
            async with self._request(path, body, timeout) as response:
                answer = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EtcdUnavailable(f"etcd at {self._url} does not answer: {type(error).__name__} {error}") from error
        if status != 200:
            raise EtcdUnavailable(_refusal(path, status, answer))
        return msgspec.json.decode(answer)

    def _request(
        self, path: str, body: Mapping[str, Any], timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._http is None:
            raise RuntimeError("EtcdClient is used outside `async with`")
        server_name = SERVER_NAME if self._tls_dir else None
        return self._http.post(path, data=msgspec.json.encode(body), server_hostname=server_name, timeout=timeout)


def _refusal(path: str, status: int, answer: bytes) -> str:
    return f"etcd answers {path} with HTTP {status}: {answer[:300].decode(errors='replace')}"


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

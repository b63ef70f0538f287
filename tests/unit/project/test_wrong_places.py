"""Addresses and files that are not there, or not ours: a sentence, and no traceback."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from bigfleet.security.credentials import CannotListen, listen


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["foo", ":7780", "127.0.0.1:http", "127.0.0.1:99999"])
async def test_a_server_listens_at_no_such_address(address: str) -> None:
    with pytest.raises(CannotListen, match=f"'{address}' is not HOST:PORT"):
        listen(grpc.aio.server(), address, None)


async def test_a_port_that_somebody_has_is_named(taken: int) -> None:
    with pytest.raises(CannotListen, match=f"cannot listen at 127.0.0.1:{taken}"):
        listen(grpc.aio.server(options=[("grpc.so_reuseport", 0)]), f"127.0.0.1:{taken}", None)


def bigfleet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bigfleet.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def shard(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    here = ("--id=s", "--listen=127.0.0.1:0", "--provider-addr=127.0.0.1:1", f"--data-dir={directory}")
    return bigfleet("shard", *here, *arguments)


def test_a_process_without_its_files_says_so_and_ends_with_2(tmp_path: Path) -> None:
    ended = shard(tmp_path, "--metrics-addr=127.0.0.1:0", f"--tls-dir={tmp_path / 'nope'}")
    said = f"shard: [Errno 2] No such file or directory: '{tmp_path / 'nope' / 'tls.crt'}'\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_a_process_whose_port_is_taken_says_so_and_ends_with_2(tmp_path: Path, taken: int) -> None:
    ended = shard(tmp_path, "--plaintext", f"--metrics-addr=127.0.0.1:{taken}")
    assert ended.returncode == 2
    assert f"('127.0.0.1', {taken}): address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_all_in_one_starts_nothing_where_somebody_else_listens(tmp_path: Path, taken: int) -> None:
    data = tmp_path / "data"
    ended = bigfleet("all-in-one", f"--data-dir={data}", "--etcd-binary=true", f"--shard-port={taken}")
    said = f"all-in-one: the shard (--shard-port) cannot listen at 127.0.0.1:{taken}: Address already in use\n"
    assert (ended.returncode, ended.stderr[: len(said)]) == (2, said)
    assert ended.stderr.count("\n") == 2
    assert not data.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host=192.0.2.1"], "the shard (--shard-port) cannot listen at 192.0.2.1:7780: Cannot assign requested"),
        (["--fleet=/nowhere.json"], "/nowhere.json: [Errno 2] No such file or directory"),
        (["--etcd-binary=no-such-etcd"], "there is no 'no-such-etcd' here"),
    ],
)
def test_all_in_one_looks_at_all_it_needs_first(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    data = tmp_path / "data"
    ended = bigfleet("all-in-one", f"--data-dir={data}", "--etcd-binary=true", *arguments)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"all-in-one: {complaint}")
    assert not data.exists()

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


def shard(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "bigfleet.cli", "shard", "--id=s", "--listen=127.0.0.1:0"),
            *("--provider-addr=127.0.0.1:1", f"--data-dir={directory}", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_process_without_its_files_says_so_and_ends_with_2(tmp_path: Path) -> None:
    ended = shard(tmp_path, "--metrics-addr=127.0.0.1:0", f"--tls-dir={tmp_path / 'nope'}")
    said = f"shard: [Errno 2] No such file or directory: '{tmp_path / 'nope' / 'tls.crt'}'\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_a_process_whose_port_is_taken_says_so_and_ends_with_2(tmp_path: Path, taken: int) -> None:
    ended = shard(tmp_path, "--plaintext", f"--metrics-addr=127.0.0.1:{taken}")
    assert ended.returncode == 2
    assert f"('127.0.0.1', {taken}): address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr

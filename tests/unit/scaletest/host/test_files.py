"""Volumes and logs on disk."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scaletest.host.kubelet.logs.logs import last_words, line_start, read_log, stamped, tail_offset, trim
from scaletest.host.kubelet.logs.logtimes import LogTimes
from scaletest.host.kubelet.spec.environment import field_value, resource_value
from scaletest.host.kubelet.spec.payload import File, write_payload
from scaletest.host.kubelet.spec.references import Unresolvable
from scaletest.host.kubelet.volumes.volumes import references_of, renewal_seconds, shows_itself

POD = {
    "metadata": {"name": "web-0", "namespace": "demo", "uid": "u1", "labels": {"app": "web", "tier": "front"}},
    "spec": {
        "serviceAccountName": "web",
        "volumes": [
            {"name": "a", "configMap": {"name": "settings"}},
            {"name": "b", "secret": {"secretName": "password"}},
            {
                "name": "c",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                        {"configMap": {"name": "kube-root-ca.crt"}},
                    ]
                },
            },
        ],
    },
}


def files_in(directory: Path) -> dict[str, bytes]:
    """What a container finds when it walks through a volume."""
    walk = os.walk(directory, followlinks=True)
    found = (Path(place) / name for place, _, names in walk for name in names)
    return {str(path.relative_to(directory)): path.read_bytes() for path in found if ".." not in str(path)}


def test_a_volume_shows_exactly_its_files(tmp_path: Path) -> None:
    write_payload(tmp_path / "v", {"a": File(b"1"), "sub/b": File(b"2", 0o400)})
    assert files_in(tmp_path / "v") == {"a": b"1", "sub/b": b"2"}
    write_payload(tmp_path / "v", {"a": File(b"new"), "c": File(b"3")})
    assert files_in(tmp_path / "v") == {"a": b"new", "c": b"3"}
    write_payload(tmp_path / "v", {})
    assert files_in(tmp_path / "v") == {}


def test_all_files_of_a_volume_change_in_one_moment(tmp_path: Path) -> None:
    write_payload(tmp_path, {"key": File(b"1"), "certificate": File(b"1")})
    held = (tmp_path / "..data").resolve()
    write_payload(tmp_path, {"key": File(b"2"), "certificate": File(b"2")})
    assert (tmp_path / "..data").resolve() != held
    assert (tmp_path / "key").readlink() == Path("..data/key")
    assert not held.exists()


def test_a_volume_that_did_not_change_is_not_touched(tmp_path: Path) -> None:
    def written() -> list[tuple[int, int, int]]:
        # Without the time of the last read: to compare is to read.
        stats = (tmp_path / "..data").lstat(), (tmp_path / "a").stat()
        return [(stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats]

    write_payload(tmp_path, {"a": File(b"1")})
    before = written()
    write_payload(tmp_path, {"a": File(b"1")})
    assert written() == before


def test_a_file_has_its_mode_and_is_always_readable_by_its_owner(tmp_path: Path) -> None:
    write_payload(tmp_path, {"public": File(b"", 0o644), "odd": File(b"", 0o000)})
    assert (tmp_path / "public").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "odd").stat().st_mode & 0o777 == 0o600


def test_the_sources_of_a_pods_volumes_are_known() -> None:
    assert references_of(POD) == {
        ("configmaps", "settings"),
        ("secrets", "password"),
        ("configmaps", "kube-root-ca.crt"),
    }
    assert renewal_seconds(POD) == 480
    assert renewal_seconds({"spec": {}}) is None
    assert not shows_itself(POD)
    assert shows_itself({"spec": {"volumes": [{"name": "me", "downwardAPI": {}}]}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web-0"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels", 'app="web"\ntier="front"'),
        ("metadata.annotations['none']", ""),
        ("spec.serviceAccountName", "web"),
        ("spec.nodeName", "embedded"),
        ("status.podIP", "127.64.1.1"),
        ("status.hostIP", "127.64.0.1"),
    ],
)
def test_a_field_reference_is_followed(path: str, value: str) -> None:
    assert field_value(POD, path, "127.64.1.1", "127.64.0.1") == value


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(Unresolvable, match=r"status\.phase"):
        field_value(POD, "status.phase", "", "")


def test_a_resource_reference_is_divided_and_rounded_up() -> None:
    container = {"resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "250m"}}}
    node = {"cpu": "8"}
    assert resource_value(container, {"resource": "limits.memory", "divisor": "1Mi"}, node) == "1024"
    assert resource_value(container, {"resource": "requests.cpu"}, node) == "1"
    assert resource_value(container, {"resource": "limits.cpu", "divisor": "1m"}, node) == "8000"


@pytest.mark.parametrize(
    ("lines", "tail"), [(0, b""), (1, b"three\n"), (2, b"two\nthree\n"), (9, b"one\ntwo\nthree\n")]
)
def test_the_last_lines_of_a_log(tmp_path: Path, lines: int, tail: bytes) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"one\ntwo\nthree\n")
    with path.open("rb") as file:
        file.seek(tail_offset(file, lines))
        assert file.read() == tail


def test_the_last_line_counts_even_if_it_is_not_finished(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"x" * 200_000 + b"\nlast\nunfinished")
    with path.open("rb") as file:
        file.seek(tail_offset(file, 2))
        assert file.read() == b"last\nunfinished"


def test_an_oversized_log_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"old\n")
        trim(path, max_bytes=100)
        assert path.read_bytes() == b"old\n"
        trim(path, max_bytes=3)
        writer.write(b"new\n")
    assert path.read_bytes() == b"new\n"
    assert (tmp_path / "0.log.1").read_bytes() == b"old\n"


async def test_a_log_is_followed_to_the_end_of_its_container(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"one\n")
    ended = asyncio.Event()
    seen: list[bytes] = []
    async with asyncio.timeout(10):
        async for _, block in read_log(path, tail_lines=None, follow=True, is_running=lambda: not ended.is_set()):
            seen.append(block)
            if block == b"one\n":
                with path.open("ab") as writer:
                    writer.write(b"two\n")
            else:
                ended.set()
    assert b"".join(seen) == b"one\ntwo\n"


async def test_the_part_of_a_log_since_a_moment_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    times = LogTimes()
    path.touch()
    times.begin(path)
    for second, written in enumerate((b"one\ntw", b"o\n", b"three\n")):
        with path.open("ab") as writer:
            writer.write(written)
        times.look(path, noon + timedelta(seconds=second))
    since = times.offset_since(path, noon + timedelta(seconds=1))
    blocks = [block async for block in read_log(path, tail_lines=None, follow=False, is_running=bool, since=since)]
    assert blocks == [(4, b"two\nthree\n")]
    assert times.offset_since(path, noon - timedelta(days=1)) == 0
    everything = read_log(path, tail_lines=None, follow=False, is_running=bool)
    lines = [line async for line in stamped(everything, lambda offset: times.moment_of(path, offset))]
    assert [line.split(b" ")[0][17:19] for line in lines] == [b"00", b"00", b"02"]
    assert lines[2].endswith(b" three\n")


def test_moments_start_afresh_when_a_log_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    times = LogTimes()
    path.write_bytes(b"a long line that is cut away\n")
    times.begin(path)
    times.look(path, noon)
    path.write_bytes(b"new\n")
    times.look(path, noon + timedelta(seconds=5))
    assert times.moment_of(path, 0) == noon + timedelta(seconds=5)


def test_a_line_is_found_from_any_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"first\n" + b"x" * 200_000)
    with path.open("rb") as file:
        assert [line_start(file, offset) for offset in (0, 3, 6, 150_000)] == [0, 0, 6, 6]


def test_last_words_are_the_end_of_a_file_that_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"much more than the end")
    assert last_words(tmp_path / "log", max_bytes=7) == "the end"
    assert last_words(tmp_path / "none") == ""

"""How the coordinator's etcd member is started."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bigfleet.coordinator import CoordinatorOptions
from bigfleet.coordinator.etcd_client import Member
from bigfleet.coordinator.member import MemberOptions, etcd_arguments


def member(
    initial_cluster: str | None = None, tls_dir: Path | None = None, data_dir: Path = Path("data")
) -> MemberOptions:
    return MemberOptions("c-0", data_dir, "etcd", "127.0.0.1:7792", "127.0.0.1:7791", initial_cluster, tls_dir)


def arguments(
    initial_cluster: str | None = None, tls_dir: Path | None = None, joining: Sequence[Member] = ()
) -> dict[str, str]:
    given = etcd_arguments(member(initial_cluster, tls_dir), joining)
    return dict(argument.removeprefix("--").split("=", 1) for argument in given)


def test_a_lone_member_is_its_own_cluster() -> None:
    assert arguments()["initial-cluster"] == "c-0=http://127.0.0.1:7791"


def test_with_tls_every_address_is_https_and_clients_need_a_certificate() -> None:
    flags = arguments("c-0=a:1,c-1=b:1", Path("tls"))
    assert flags["initial-cluster"] == "c-0=https://a:1,c-1=https://b:1"
    assert flags["listen-client-urls"] == "https://127.0.0.1:7792"
    assert flags["listen-peer-urls"] == "https://127.0.0.1:7791"
    assert flags["client-cert-auth"] == flags["peer-client-cert-auth"] == "true"


def test_the_member_trusts_its_own_coordinator_as_client_and_coordinators_only_as_peers() -> None:
    flags = arguments(tls_dir=Path("tls"))
    assert flags["trusted-ca-file"] == str(Path("data") / "client-tls" / "ca.crt")
    assert flags["cert-file"] == str(Path("data") / "client-tls" / "tls.crt")
    assert flags["peer-cert-file"] == str(Path("tls") / "tls.crt")
    assert flags["peer-trusted-ca-file"] == str(Path("tls") / "ca.crt")
    assert flags["peer-cert-allowed-hostname"] == "coordinator.bigfleet"


def test_peers_find_it_by_the_name_in_the_list_wherever_it_listens() -> None:
    flags = arguments("c-0=c-0.example:1,c-1=c-1.example:1")
    assert flags["listen-peer-urls"] == "http://127.0.0.1:7791"
    assert flags["initial-advertise-peer-urls"] == "http://c-0.example:1"


def test_one_that_is_let_in_starts_with_the_members_it_was_told_of() -> None:
    told = [Member(0, "c-2", ("http://c:1",)), Member(1, "", ("http://a:1",)), Member(2, "", ("http://d:1",))]
    flags = arguments("c-0=a:1,c-1=b:1,c-2=c:1", joining=told)
    assert flags["initial-cluster"] == "c-2=http://c:1,2=http://d:1,c-0=http://a:1"
    assert flags["initial-cluster-state"] == "existing"
    assert arguments("c-0=a:1")["initial-cluster-state"] == "new"


def test_a_directory_has_state_once_a_member_has_logged_in_it(tmp_path: Path) -> None:
    options = member(data_dir=tmp_path)
    (options.etcd_dir / "member" / "wal").mkdir(parents=True)
    assert not options.has_state
    (options.etcd_dir / "member" / "wal" / "0.wal").touch()
    assert options.has_state


def test_a_list_without_this_coordinator_is_refused() -> None:
    with pytest.raises(ValueError, match="does not name this coordinator, 'c-0'"):
        arguments("c-1=a:1")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "give one of --tls-dir"),
        ({"tls_dir": Path("tls"), "plaintext": True}, "give one of --tls-dir"),
        ({"plaintext": True, "initial_cluster": "node-1=a:1,node-2=b:1"}, "give join_addr too"),
        ({"plaintext": True, "snapshot_export_interval_seconds": 0}, "must be above 0"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CoordinatorOptions(**settings)


@pytest.mark.parametrize("cluster", ["c-0", "c-0=", "=a:1", "c-0=a:1,"])
def test_a_bad_initial_cluster_is_named(cluster: str) -> None:
    with pytest.raises(ValueError, match="is not name=host:port"):
        arguments(cluster)

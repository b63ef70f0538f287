"""How the coordinator's etcd member is started."""

from pathlib import Path

import pytest

from bigfleet.coordinator.member import MemberOptions, etcd_arguments


def arguments(initial_cluster: str | None = None, tls_dir: Path | None = None) -> dict[str, str]:
    options = MemberOptions("c-0", Path("data"), "etcd", "127.0.0.1:7792", "127.0.0.1:7791", initial_cluster, tls_dir)
    return dict(argument.removeprefix("--").split("=", 1) for argument in etcd_arguments(options))


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
    assert flags["trusted-ca-file"] == flags["cert-file"] == str(Path("tls") / "tls.crt")
    assert flags["peer-trusted-ca-file"] == str(Path("tls") / "ca.crt")
    assert flags["peer-cert-allowed-hostname"] == "coordinator.bigfleet"


@pytest.mark.parametrize("cluster", ["c-0", "c-0=", "=a:1", "c-0=a:1,"])
def test_a_bad_initial_cluster_is_named(cluster: str) -> None:
    with pytest.raises(ValueError, match="is not name=host:port"):
        arguments(cluster)

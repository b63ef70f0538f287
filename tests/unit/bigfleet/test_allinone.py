from typing import Any

import pytest

from bigfleet.allinone import AllInOneOptions


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("admin", "--cluster admin: that is the name of a part of the fleet"),
        ("shard-0", "--cluster shard-0: that is the name of a part of the fleet"),
        ("../evil", "--cluster: 'cluster' cannot be named '../evil'"),
    ],
)
def test_no_cluster_takes_another_partys_identity(name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        AllInOneOptions(cluster=("laptop", name))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"shard_port": 0}, "the shard (--shard-port) would be at 0, and ports go from 1 to 65535"),
        ({"metrics_offset": 60_000}, "the shard's metrics (--shard-port with --metrics-offset) would be at 67780, and"),
        ({"coordinator_port": 65_534}, "the coordinator's metrics (--coordinator-port with --metrics-offset) would be"),
        (
            {"shard_port": 7790},
            "the shard (--shard-port) and the coordinator (--coordinator-port) would both be at port 7790",
        ),
        (
            {"provider_port": 7791},
            "the provider (--provider-port) and etcd's peers (--coordinator-port + 1) would both be at port 7791",
        ),
        (
            {"metrics_offset": 10},
            "the shard's metrics (--shard-port with --metrics-offset) and the coordinator (--coordinator-port) would",
        ),
        ({"host": "localhost"}, "--host: 'localhost' is not an IPv4 address"),
    ],
)
def test_ports_that_cannot_be_are_wrong_use(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError) as refused:
        AllInOneOptions(**options)
    assert str(refused.value).startswith(complaint)

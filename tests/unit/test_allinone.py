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

"""The deployer's file of domains is read as it stands, or refused with the entry that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from bigfleet.coordinator.domainsfile import BadDomainsFile, read_domains_file
from bigfleet.coordinator.ownership import Domain

GOOD = {"key": "topology.kubernetes.io/zone", "value": "zone-a", "shard": "shard-0"}


def written(directory: Path, content: Any) -> Path:
    path = directory / "domains.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_each_domain_has_its_shard(tmp_path: Path) -> None:
    path = written(tmp_path, [GOOD, GOOD | {"value": "zone-b", "shard": "shard-1"}])
    assert read_domains_file(path) == {
        Domain("topology.kubernetes.io/zone", "zone-a"): "shard-0",
        Domain("topology.kubernetes.io/zone", "zone-b"): "shard-1",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", r"domains\.json: .*truncated"),
        ({"zone-a": "shard-0"}, r"domains\.json: Expected `array`"),
        ([GOOD, "zone-b"], "entry 2: Expected `object`"),
        ([GOOD, {"key": "zone", "value": "zone-b"}], "entry 2: .*missing required field `shard`"),
        ([GOOD, GOOD | {"value": "zone-b", "owner": "x"}], "entry 2: .*unknown field `owner`"),
        ([GOOD | {"shard": ""}], "entry 1: shard must be set"),
        ([GOOD, GOOD | {"value": "zone b"}], "entry 2: 'zone b' is no name"),
        ([GOOD, GOOD | {"shard": "shard-1"}], "entry 2: topology.kubernetes.io/zone=zone-a stands there twice"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_entry(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(BadDomainsFile, match=said):
        read_domains_file(written(tmp_path, content))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDomainsFile, match=r"nowhere\.json: No such file"):
        read_domains_file(tmp_path / "nowhere.json")

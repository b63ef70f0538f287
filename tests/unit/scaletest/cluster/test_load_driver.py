"""The load-driver reads its profile strictly, and knows from the runner's ConfigMap when the soak is on."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.kube import ObjectMeta
from scaletest.cluster.load.run_watch import RunConfigMap, RunState, RunWatch
from scaletest.cluster.mounted import read_mounted
from scaletest.errors import UsageError
from scaletest.model.documents.loadprofile import LoadProfile

ARCHETYPE = {
    "name": "web",
    "instanceTypes": ["m6i.large"],
    "zones": ["zone-a"],
    "sizes": [{"resources": {"cpu": "1"}}],
}


def written(directory: Path, **fields: Any) -> Path:
    path = directory / "profile.yaml"
    path.write_text(yaml.safe_dump({"target": 10, "archetypes": [ARCHETYPE], **fields}))
    return path


def test_a_plain_profile_is_read(tmp_path: Path) -> None:
    profile = read_mounted(written(tmp_path, churnPerMinute=0.5, seed=7), LoadProfile)
    assert (profile.target, profile.churn_per_minute, profile.seed) == (10, 0.5, 7)


def test_an_unknown_field_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"profile\.yaml: churn: "):
        read_mounted(written(tmp_path, churn=1), LoadProfile)


def test_a_missing_file_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.yaml"):
        read_mounted(tmp_path / "nowhere.yaml", LoadProfile)


def config_map(phase: str, soak_start: str = "") -> RunConfigMap:
    return RunConfigMap(ObjectMeta(), RunState(phase, soak_start))


async def test_the_soak_is_on_from_its_phase_until_the_next() -> None:
    starts: list[float] = []
    watch = RunWatch(starts.append)
    watch.on_change(None, config_map("settle"))
    assert not watch.soaking.is_set()
    watch.on_change(None, config_map("soak", "1700000000"))
    watch.on_change(None, config_map("soak", "1700000000"))
    assert watch.soaking.is_set()
    assert starts == [1_700_000_000.0]
    assert watch.soak_start == 1_700_000_000.0
    watch.on_change(None, config_map("evidence", "1700000000"))
    assert not watch.soaking.is_set()


async def test_a_soak_without_a_start_arms_nothing() -> None:
    watch = RunWatch()
    watch.on_change(None, config_map("soak"))
    watch.on_change(None, None)
    assert not watch.soaking.is_set()

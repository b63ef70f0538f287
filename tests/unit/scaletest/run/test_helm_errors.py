"""An error of Helm is shown with the values that it is about."""

import sys
from pathlib import Path

import pytest

from scaletest.errors import HelmError
from scaletest.run.target.helm import Helm
from scaletest.run.target.helm_errors import merged, values_in_question


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "values.yaml").write_text("kwok: {clusterCount: 2, storage: etcd}\nshard: {replicas: 1}\n")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "shard.yaml").write_text("a\nreplicas: {{ int .Values.shard.replicas }}\n")
    return tmp_path


def test_a_value_that_the_schema_refuses(chart: Path) -> None:
    words = "values don't meet the specifications:\n- kwok.clusterCount: Invalid type. Expected: integer, given: string"
    chosen = {"kwok": {"clusterCount": "abc"}}
    assert values_in_question(words, chart, chosen, chosen) == ["kwok.clusterCount = 'abc' (--set)"]


def test_a_value_on_the_template_line_that_failed(chart: Path) -> None:
    words = "execution error at (tiny/templates/shard.yaml:2:4): must be odd"
    assert values_in_question(words, chart, {"shard": {"replicas": 4}}, {}) == ["shard.replicas = 4"]


def test_a_value_that_is_not_there(chart: Path) -> None:
    words = 'template: tiny/templates/x.yaml:1:2: at <.Values.shard.missing>: nil pointer evaluating "interface {}"'
    assert values_in_question(words, chart, {}, {}) == ["shard.missing = not set"]


def test_a_name_within_another_name_is_not_meant(chart: Path) -> None:
    assert values_in_question("- kwok.storageClass: unknown", chart, {}, {}) == []


def test_where_no_value_is_named_the_users_own_are(chart: Path) -> None:
    chosen = {"shard": {"replicas": -1}}
    words = 'StatefulSet.apps "bigfleet-shard" is invalid: spec.replicas: must be greater than or equal to 0'
    assert values_in_question(words, chart, chosen, chosen) == ["shard.replicas = -1 (--set)"]


def test_maps_are_merged_and_the_rest_replaced() -> None:
    base = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merged(base, {"a": {"c": [2]}, "d": {"e": 3}}) == {"a": {"b": 1, "c": [2]}, "d": {"e": 3}}
    assert base == {"a": {"b": 1, "c": [1]}, "d": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "cannot load Chart.yaml: error converting YAML"),
        ("- not a mapping", "cannot load Chart.yaml: "),
        ("{apiVersion: v2, name: tiny}", "chart.metadata.version is required"),
    ],
)
async def test_what_is_wrong_with_a_chart_itself_is_said_by_helm(chart: Path, text: str, words: str) -> None:
    (chart / "Chart.yaml").write_text(text)
    helm = Helm(Path(sys.executable).with_name("helm"), None, "tiny", "mine")
    with pytest.raises(HelmError, match=words):
        await helm.render(chart, {}, {})

"""values.schema.json knows every value, and Helm refuses with it what the chart would misread."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from scaletest.model.documents.loadprofile import LoadProfile, Seeding
from scaletest.model.files.schema import json_schema
from scaletest.project import CHART
from tests.golden.rendering import REFRESH, HelmRefused, Object, merged, plan_values, render

SCHEMA_FILE = CHART / "values.schema.json"
# Rendered by the runner from these models, so their part of the schema is generated from them too.
MODELS: dict[str, Any] = {"loadProfile": LoadProfile, "seeding": Seeding}


def draft_7(node: Any) -> Any:
    """A part of pydantic's schema (draft 2020-12) in the words that Helm 3 understands (draft 7)."""
    if isinstance(node, list):
        return [draft_7(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    words = {"prefixItems": "items"}
    fixed = {words.get(key, key): draft_7(value) for key, value in node.items() if key not in ("description", "title")}
    if "$ref" in fixed:
        fixed["$ref"] = fixed["$ref"].replace("#/$defs/", "#/definitions/")
    return fixed


def with_models(schema: Object) -> Object:
    """The schema with its generated part made anew; the chart's own defaults are empty, so nothing is required."""
    generated = {key: json_schema(model) for key, model in MODELS.items()}
    definitions = {name: draft_7(part) for model in generated.values() for name, part in model["$defs"].items()}
    kept = {name: part for name, part in schema["definitions"].items() if name[0].islower()}
    roots = {
        key: draft_7({word: part for word, part in model.items() if word not in ("$schema", "$defs", "required")})
        for key, model in generated.items()
    }
    return {
        **schema,
        "properties": {key: roots.get(key, part) for key, part in schema["properties"].items()},
        "definitions": kept | dict(sorted(definitions.items())),
    }


def stored_schema() -> Object:
    return dict(json.loads(SCHEMA_FILE.read_text()))


def test_the_generated_part_is_current() -> None:
    schema = stored_schema()
    if os.environ.get(REFRESH):
        SCHEMA_FILE.write_text(json.dumps(with_models(schema), indent=2) + "\n")
    else:
        assert schema == with_models(schema), "`make golden` refreshes chart/values.schema.json"


def fields(schema: Object, node: Object, path: str = "") -> Iterator[str]:
    """The path of every value that the schema names, down to what it leaves to the user (a map or a list)."""
    node = schema["definitions"][node["$ref"].rsplit("/", 1)[-1]] if "$ref" in node else node
    if not node.get("properties"):
        yield path
    for key, below in node.get("properties", {}).items():
        yield from fields(schema, below, f"{path}.{key}" if path else key)


def leaves(values: Any, path: str = "") -> Iterator[str]:
    if not isinstance(values, dict) or not values:
        yield path
    else:
        for key, below in values.items():
            yield from leaves(below, f"{path}.{key}" if path else key)


def test_values_yaml_has_exactly_the_values_of_the_schema() -> None:
    schema = stored_schema()
    whole = {**schema, "properties": {**schema["properties"], "loadProfile": {}, "seeding": {}}}
    named = set(fields(schema, whole))
    optional = {path for path in named if path.endswith("ephemeral-storage")}
    given = set(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    assert given == named - optional


def maps(node: Any) -> Iterator[Object]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for below in node.values():
            yield from maps(below)
    elif isinstance(node, list):
        for below in node:
            yield from maps(below)


def test_no_map_of_the_schema_takes_a_key_that_nobody_reads() -> None:
    loose = [
        found
        for found in maps(stored_schema())
        # A map with keys of the user's own says what its values are.
        if found.get("additionalProperties", True) is True and "patternProperties" not in found
    ]
    assert loose == []


REFUSED: dict[str, tuple[Object, str]] = {
    "a typo at the top": ({"kwokk": {}}, "Additional property kwokk is not allowed"),
    "a typo inside": ({"shard": {"replica": 2}}, "shard: Additional property replica is not allowed"),
    "a typo in the demand": ({"loadProfile": {"churn": 1}}, "loadProfile: Additional property churn is not allowed"),
    "text for a number": ({"kwok": {"clusterCount": "2"}}, "kwok.clusterCount: Invalid type"),
    "a fraction for a count": ({"shard": {"replicas": 1.5}}, "shard.replicas: Invalid type"),
    "a number for a switch": ({"grafana": {"enabled": 1}}, "grafana.enabled: Invalid type"),
    "two coordinators": ({"coordinator": {"replicas": 2}}, "coordinator.replicas must be one of the following: 1, 3"),
    "a penalty that is none": (
        {"podController": {"priorityClassDefaults": {"batch": {"interuptionPenalty": "2"}}}},
        "podController.priorityClassDefaults.batch: Additional property interuptionPenalty is not allowed",
    ),
    "no shard": ({"shard": {"replicas": 0}}, "shard.replicas: Must be greater than or equal to 1"),
    "a tag of digits": ({"image": {"bigfleet": {"tag": 20261116}}}, "image.bigfleet.tag: Invalid type"),
    "the tag latest": ({"image": {"grafana": {"tag": "latest"}}}, "image.grafana.tag"),
    "half a digest": ({"image": {"grafana": {"digest": "sha256:12"}}}, "image.grafana.digest: Does not match"),
    "an image in one word": ({"image": {"bigfleet": "bigfleet:dev"}}, "image.bigfleet: Invalid type"),
    "no quantity": ({"kwok": {"sharedVolumeSizeLimit": "lots"}}, "kwok.sharedVolumeSizeLimit: Does not match"),
    "a limit of another name": (
        {"shard": {"resources": {"limits": {"mem": "1Gi"}}}},
        "shard.resources.limits: Additional property mem is not allowed",
    ),
    "a flag without dashes": ({"shard": {"extraArgs": ["dry-run"]}}, "shard.extraArgs.0: Does not match"),
    "a dashboard that is no JSON": ({"grafana": {"dashboards": {"a": "no"}}}, "grafana.dashboards.a: Does not match"),
    "a run id that is no label": ({"runId": "<run id>"}, "runId: Does not match"),
    "no run id": ({"runId": ""}, "runId must be set"),
    "domains without coordinators": (
        {"coordinator": {"enabled": False, "domains": [{"key": "zone", "value": "a", "shard": "bigfleet-shard-0"}]}},
        "coordinator.domains needs coordinators",
    ),
    "a domain without its shard": (
        {"coordinator": {"domains": [{"key": "zone", "value": "a"}]}},
        "coordinator.domains.0: shard is required",
    ),
    "Grafana without its Prometheus": (
        {"prometheus": {"enabled": False}, "grafana": {"enabled": True}},
        "grafana.enabled needs prometheus.enabled",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_helm_refuses_it_and_says_where(case: str) -> None:
    overrides, words = REFUSED[case]
    with pytest.raises(HelmRefused) as refusal:
        render(merged(plan_values("smoke"), overrides))
    assert words in str(refusal.value)


# One of each kind: sizes, catalogs, bursts, steps, sheds, coordinators, shards. Larger siblings differ in numbers only.
@pytest.mark.parametrize(
    "profile",
    [
        *("smoke", "dev-50", "5k", "5m", "50k-2shard", "cost-routing-5k", "oscillation-5k", "preemption-5k"),
        *("reclaim-cycle", "scarcity-5k", "failover-soak"),
    ],
)
def test_helm_takes_what_the_runner_renders(profile: str) -> None:
    assert render(plan_values(profile, "example-fat-host"))

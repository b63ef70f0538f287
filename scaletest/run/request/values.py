"""--set: Helm values that a user chooses, held against those that the chart has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from scaletest.errors import UsageError

# What a plan derives, by where it comes from. A run with another value would not be what its plan, its report and its
# gates say.
_DERIVED = {
    "runId": "every run has one of its own",
    "kwok.clusterCount": "set topology.kwokClusters in the profile",
    "shard.replicas": "set topology.shardReplicas in the profile",
    "coordinator.replicas": "set topology.coordinatorReplicas in the profile",
    "coordinator.domains": "racks follow from topology.shardReplicas in the profile",
    "loadProfile": "set loadProfile, scale or catalog in the profile",
    "seeding": "set seed, scale or catalog in the profile",
    "provider.seed": "--seed sets it",
    "provider.failureRatePerSec": "set shard.failureRatePerSec in the profile",
}


def read_overrides(sets: Sequence[str], chart: Path) -> dict[str, Any]:
    """`a.b=c` as nested maps; values are read as YAML, as Helm users expect of numbers and booleans."""
    overrides: dict[str, Any] = {}
    for pair in sets:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise UsageError(f"--set {pair!r} is not KEY=VALUE")
        default = _default_of(path, chart)
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UsageError(f"--set {path}: {value!r} cannot be read: {' '.join(str(error).split())}") from error
        if isinstance(default, dict) and default and not isinstance(read, dict):
            raise UsageError(f"--set {path}: it has values of its own below it", hint=f"try {path}.{min(default)}")
        _refuse_derived(path, read)
        _put(overrides, path, read)
    return overrides


def _refuse_derived(path: str, value: Any) -> None:
    """Refuse a path, or a map's keys below it, that would overrule the plan."""
    if isinstance(value, dict):
        for key, below in value.items():
            _refuse_derived(f"{path}.{key}", below)
    for derived, hint in _DERIVED.items():
        if path == derived or path.startswith(f"{derived}."):
            raise UsageError(f"--set {path}: {derived} comes from the plan", hint=hint)


def _put(overrides: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    at = overrides
    for parent in parents:
        at = at.setdefault(parent, {})
        if not isinstance(at, dict):
            raise UsageError(f"--set {path}: another --set gives {parent} the value {at!r}, which has nothing below it")
    if isinstance(at.get(last), dict) and not isinstance(value, dict):
        raise UsageError(f"--set {path}: another --set gives a value below {last}")
    at[last] = value


def _default_of(path: str, chart: Path) -> Any:
    """What the chart has there. A Helm value that no template reads would be ignored in silence: it is refused."""
    values = chart / "values.yaml"
    at: Any = yaml.safe_load(values.read_text()) if values.exists() else {}
    for part in path.split("."):
        if not isinstance(at, dict) or (at and part not in at):
            raise UsageError(f"--set {path}: the chart has no such value", hint="see chart/values.yaml")
        at = at.get(part, {})
    return at

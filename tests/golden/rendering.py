"""The chart as `helm template` renders it, and texts that are compared with what was stored of them."""

import difflib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaletest.project import CHART
from tests.unit.plans import shipped_plan

NAMESPACE = "bigfleet-scaletest"
RUN_ID = "20261116-120000-golden"
STORED = Path(__file__).parent
REFRESH = "REFRESH_GOLDEN"
_SHOWN_LINES = 120

Object = dict[str, Any]


class HelmRefused(Exception):
    """What Helm says about values that it does not take."""


def helm_template(values: Object, namespace: str = NAMESPACE) -> str:
    """The manifests of a release with these values."""
    helm = Path(sys.executable).with_name("helm")
    command = [str(helm), "template", "scaletest", str(CHART), f"--namespace={namespace}", "--values=-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmRefused(done.stderr)
    return done.stdout


def plan_values(profile: str, substrate: str = "embedded") -> Object:
    """What the runner would give to Helm."""
    return shipped_plan(profile, substrate).values(RUN_ID)


def merged(base: Object, overrides: Object) -> Object:
    both = {
        key: merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in overrides.items()
    }
    return {**base, **both}


@cache
def _objects(values_json: str) -> list[Object]:
    return [found for found in yaml.safe_load_all(helm_template(json.loads(values_json))) if found]


def render(values: Object) -> list[Object]:
    """The objects of a release with these values; each set of values is rendered once."""
    return _objects(json.dumps(values, sort_keys=True))


def compare_with_stored(name: str, text: str) -> None:
    """Fail with the difference to tests/golden/<name>; REFRESH_GOLDEN=1 stores the text instead."""
    path = STORED / name
    if os.environ.get(REFRESH):
        path.write_text(text)
        return
    if not path.exists():
        pytest.fail(f"tests/golden/{name} does not exist yet: `make golden` stores it")
    stored = path.read_text()
    if stored == text:
        return
    difference = list(difflib.unified_diff(stored.splitlines(), text.splitlines(), "stored", "now", lineterm="", n=4))
    more = len(difference) - _SHOWN_LINES
    shown = difference[:_SHOWN_LINES] + ([f"… and {more} lines more"] if more > 0 else [])
    pytest.fail(
        f"this differs from tests/golden/{name}; if that is meant: `make golden`\n" + "\n".join(shown),
        pytrace=False,
    )

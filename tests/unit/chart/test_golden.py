"""What the chart renders for three runs, to the letter, so that a change is seen; `make golden` stores a wanted one."""

import subprocess
import sys
from pathlib import Path

import pytest

from scaletest.project import CHART
from tests.golden.rendering import REFRESH, compare_with_stored, helm_template, plan_values
from tests.golden.variants import GOLDEN


@pytest.mark.parametrize("name", GOLDEN)
def test_the_chart_renders_what_was_stored(name: str) -> None:
    compare_with_stored(f"{name}.yaml", helm_template(plan_values(*GOLDEN[name])))


def test_a_difference_is_shown_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REFRESH, raising=False)
    changed = helm_template(plan_values("dev-50")).replace("name: kwok-cluster\n", "name: other\n")
    with pytest.raises(pytest.fail.Exception) as failure:
        compare_with_stored("dev-50.yaml", changed)
    assert "-  name: kwok-cluster" in str(failure.value)
    assert "+  name: other" in str(failure.value)
    assert "make golden" in str(failure.value)


def test_helm_lint_has_nothing_to_say() -> None:
    helm = Path(sys.executable).with_name("helm")
    command = [str(helm), "lint", "--strict", "--quiet", "--set", "runId=lint", str(CHART)]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout.strip(), linted.stderr.strip()) == (0, "", "")

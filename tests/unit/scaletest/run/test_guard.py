"""Nobody's money is spent by accident: contexts, questions, caps."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from scaletest.cli.asking import ask_before_spending
from scaletest.errors import UsageError
from scaletest.model.contexts import classify_context
from scaletest.model.plan import Plan
from scaletest.run.steps.guard import (
    DEFAULT_CAPS,
    Caps,
    beyond_caps,
    chosen_context,
    needed_flags,
    needs_consent,
)
from tests.unit.plans import shipped_plan


@pytest.mark.parametrize(
    ("context", "kind"),
    [
        ("arn:aws:eks:eu-west-1:1:cluster/prod", "cloud"),
        ("gke_project_zone_name", "cloud"),
        ("my-AKS", "cloud"),
        ("azure-dev", "cloud"),
        ("gcp-thing", "cloud"),
        ("scw-k8s", "cloud"),
        ("admin@scaleway", "cloud"),
        ("kapsule-1", "cloud"),
        ("kind-bigfleet", "kind"),
        ("a-kind-of-eks", "cloud"),
        ("homelab", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_contexts_name_gives_the_cloud_away(context: str, kind: str) -> None:
    assert classify_context(context) == kind


def test_a_paid_cloud_run_asks_and_small_change_does_not() -> None:
    dear = shipped_plan("50k", "example-fat-host")
    assert needs_consent(dear, "cloud")
    assert not needs_consent(dear, "kind")
    assert not needs_consent(dear, "unknown")
    cheap = shipped_plan("5k", "example-fat-host")
    assert cheap.cost.larger_usd < 5
    assert not needs_consent(cheap, "cloud")
    assert needs_consent(shipped_plan("5k", "example-fat-host", soak_seconds=4 * 3600), "cloud"), "by the larger price"


def costing(usd: float) -> Plan:
    """A plan whose larger price is this."""
    plan = shipped_plan("50k", "example-fat-host")
    return replace(plan, cost=replace(plan.cost, soak_usd=0.0, run_usd=usd))


@pytest.mark.parametrize(("usd", "asks"), [(4.99, False), (5.00, True), (5.01, True)])
def test_five_dollars_are_where_asking_begins(usd: float, asks: bool) -> None:
    assert needs_consent(costing(usd), "cloud") is asks


def test_a_run_is_capped_at_two_hours_and_fifty_dollars() -> None:
    assert Caps(2 * 3600, 50.0) == DEFAULT_CAPS
    assert beyond_caps(costing(50.00), Caps(1e9, 50)) == []
    assert [error.hint for error in beyond_caps(costing(50.01), Caps(1e9, 50))] == ["--max-cost-usd 51"]
    exactly = costing(0).capped_seconds
    assert beyond_caps(costing(0), Caps(exactly, 50)) == []
    assert len(beyond_caps(costing(0), Caps(exactly - 1, 50))) == 1


def test_beyond_a_cap_the_refusal_names_the_flags_that_help() -> None:
    plan = shipped_plan("500k", "example-fat-host")
    assert needed_flags(plan, DEFAULT_CAPS) == ["--max-duration 5h32m", "--max-cost-usd 542"]
    too_long, too_dear = beyond_caps(plan, DEFAULT_CAPS)
    assert too_long.message == "settle and soak alone may take 5h00m00s, --max-duration is 2h00m00s"
    assert too_dear.message == "the run is estimated at $541.03, --max-cost-usd is $50"
    assert too_long.hint == too_dear.hint == "--max-duration 5h32m --max-cost-usd 542"
    assert beyond_caps(plan, Caps(6 * 3600, 542)) == []


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: {context}
contexts: [{{name: {context}, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:1"}}}}]
users: [{{name: u, user: {{}}}}]
"""


@pytest.mark.parametrize(
    ("context", "answer", "goes_on"),
    [("prod-eks", "y\n", True), ("prod-eks", "Yes\n", True), ("prod-eks", "\n", False), ("prod-eks", "", False),
     ("prod-eks", "no\n", False), ("kind-x", "", True)],
)  # fmt: skip
def test_only_a_yes_starts_a_paid_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], context: str, answer: str, goes_on: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    plan = shipped_plan("50k", "example-fat-host")
    if goes_on:
        ask_before_spending(plan, context, yes=False)
    else:
        with pytest.raises(UsageError, match="aborted: not confirmed"):
            ask_before_spending(plan, context, yes=False)
    asked = "21 hosts, about $17.85 for the soak and $38.68 for the whole run" in capsys.readouterr().err
    assert asked == (context == "prod-eks")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{unclosed", "is not valid YAML"),
        ("\x00", "is not valid YAML"),
        ("[1, 2]", "no kubeconfig"),
        ("just words", "no kubeconfig"),
        ("", "no usable kube context"),
        ("contexts: 5", "no usable kube context"),
        ("contexts: [5]\ncurrent-context: x", "no usable kube context"),
    ],
)
def test_a_kubeconfig_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    with pytest.raises(UsageError, match=sentence):
        chosen_context()


def test_a_context_is_chosen_by_name_and_must_be_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG.format(context="homelab"))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    assert chosen_context() == chosen_context("homelab") == "homelab"
    with pytest.raises(UsageError, match="the kubeconfig has no 'homelap', but homelab"):
        chosen_context("homelap")


def test_a_broken_current_context_does_not_matter_to_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = KUBECONFIG.format(context="homelab").replace("current-context: homelab", "current-context: gone")
    (tmp_path / "config").write_text(text)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    assert chosen_context("homelab") == "homelab"
    with pytest.raises(UsageError, match="gone"):
        chosen_context()


def test_without_a_kubeconfig_there_is_no_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="there is no kubeconfig"):
        chosen_context("homelab")


def test_yes_on_the_command_line_is_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    ask_before_spending(shipped_plan("50k", "example-fat-host"), "prod-eks", yes=True)
    assert capsys.readouterr().err == ""

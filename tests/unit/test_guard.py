"""Nobody's money is spent by accident: contexts, questions, caps."""

import io
from pathlib import Path

import pytest

from scaletest.cli import run as cli_run
from scaletest.errors import UsageError
from scaletest.run.guard import classify_context, needed_flags, needs_consent, refuse_beyond_caps
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


def test_beyond_a_cap_the_refusal_names_the_flag_that_helps() -> None:
    plan = shipped_plan("500k", "example-fat-host")
    assert needed_flags(plan, 7200, 50) == ["--max-duration 5h32m", "--max-cost-usd 542"]
    with pytest.raises(
        UsageError, match="settle and soak alone may take 5h00m00s, --max-duration is 2h00m00s"
    ) as refused:
        refuse_beyond_caps(plan, 7200, 50)
    assert refused.value.hint == "--max-duration 5h32m --max-cost-usd 542"
    with pytest.raises(UsageError, match=r"estimated at \$541\.03, --max-cost-usd is \$50"):
        refuse_beyond_caps(plan, 6 * 3600, 50)
    refuse_beyond_caps(plan, 6 * 3600, 542)


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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], context: str, answer: str,
    goes_on: bool,
) -> None:  # fmt: skip
    (tmp_path / "config").write_text(KUBECONFIG.format(context=context))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    plan = shipped_plan("50k", "example-fat-host")
    if goes_on:
        cli_run.ask_before_spending(plan, yes=False)
    else:
        with pytest.raises(UsageError, match="nobody said yes"):
            cli_run.ask_before_spending(plan, yes=False)
    asked = "21 hosts, about $17.85 for the soak and $38.68 for the whole run" in capsys.readouterr().err
    assert asked == (context == "prod-eks")


def test_yes_on_the_command_line_is_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    cli_run.ask_before_spending(shipped_plan("50k", "example-fat-host"), yes=True)
    assert capsys.readouterr().err == ""

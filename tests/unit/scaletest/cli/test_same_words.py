"""A mistake is refused with the same words and exit code 2 by every command that takes the option."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from scaletest.model.documents.substrate import Host
from tests.unit.scaletest.cli.test_cli import run_cli_apart
from tests.unit.scaletest.run.test_guard import KUBECONFIG

COMMANDS = {
    "without a name": (),
    "run": ("run",),
    "dry run": ("run", "--dry-run"),
    "up": ("up",),
    "plan": ("plan",),
    "simulate": ("simulate",),
}
OF_A_PROFILE = tuple(COMMANDS)
OF_A_FLEET = ("without a name", "run", "dry run", "up")
OF_A_RUN = ("without a name", "run", "dry run", "plan")
ON_KIND = "--profile dev-50 --substrate example-kind-laptop"


@dataclass(frozen=True)
class Mistake:
    """What is typed, which commands take it, and how each of them answers."""

    name: str
    arguments: str
    takers: tuple[str, ...]
    first_line: str


MISTAKES = [
    Mistake("no profile", "--substrate embedded", OF_A_PROFILE, "--profile is missing"),
    Mistake("unknown profile", "--profile smok", OF_A_PROFILE, "there is no profile 'smok'; did you mean smoke?"),
    Mistake("wrong field", "--profile {wrong}", OF_A_PROFILE, "{wrong} is not a valid profile:"),
    Mistake("unknown substrate", "--profile smoke --substrate moon", OF_A_PROFILE, "there is no substrate 'moon'"),
    Mistake(
        "bad seed",
        "--profile smoke --seed -1",
        OF_A_PROFILE,
        "--seed: '-1' is not a whole number from 0 to 9007199254740991",
    ),
    Mistake("bad duration", "--profile smoke --duration soon", (*OF_A_RUN, "simulate"), "--duration: "),
    Mistake(
        "bad cap",
        "--profile smoke --max-cost-usd much",
        OF_A_RUN,
        "--max-cost-usd: much is not an amount of dollars",
    ),
    Mistake(
        "cap too low",
        "--profile smoke --max-duration 1m",
        OF_A_RUN,
        "settle and soak alone may take 6m40s, --max-duration is 1m00s",
    ),
    Mistake(
        "bad namespace",
        "--profile smoke --namespace Not_A_Name",
        OF_A_FLEET,
        "--namespace: 'Not_A_Name' is not a name",
    ),
    Mistake("wrong --set", "--profile smoke --set a.b=1", OF_A_FLEET, "--set a.b: the chart has no such value"),
    Mistake("refused --set", "--profile smoke --set shard.listPageSize=abc", OF_A_FLEET, "helm template: "),
    Mistake(
        "context on a substrate without one",
        "--profile smoke --context kind-dev",
        OF_A_FLEET,
        "--context: embedded brings a cluster of its own, and runs without images",
    ),
    Mistake(
        "unknown context",
        f"{ON_KIND} --image any:1 --context kind-prod",
        OF_A_FLEET,
        "there is no usable kube context: the kubeconfig has no 'kind-prod', but kind-dev",
    ),
    Mistake("missing images", ON_KIND, OF_A_FLEET, "no image of bigfleet and scaletest for context kind-dev"),
    Mistake("folder in use", "--profile smoke --results {full}", OF_A_FLEET, "{full} has a summary.json already"),
]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A kubeconfig with one context, a profile with a wrong field, a folder that holds a run."""
    (tmp_path / "config").write_text(KUBECONFIG.format(context="kind-dev"))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: bigfleet.io/scaletest/v1\nkind: Profile\nscale: {machines: 1, densty: 1}\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "summary.json").write_text("{}")
    return {"wrong": str(wrong), "full": str(tmp_path / "full")}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_every_command_refuses_a_mistake_with_the_same_words(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    places: dict[str, str],
    mistake: Mistake,
) -> None:
    answers = {}
    for taker in mistake.takers:
        arguments = [argument.format(**places) for argument in mistake.arguments.split()]
        answers[taker] = first_line(run_cli_apart(monkeypatch, capsys, *COMMANDS[taker], *arguments))
    [(code, line)] = set(answers.values()) or [(None, "")]
    assert code == 2
    assert line.startswith(f"scaletest-runner: {mistake.first_line.format(**places)}"), line


def test_so_is_a_machine_with_too_little_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scaletest.run.request.request.this_machine", lambda: Host(v_cpu=2, memory_gi_b=0.1))
    takers = ("without a name", "run", "dry run", "up", "plan")
    answers = {
        first_line(run_cli_apart(monkeypatch, capsys, *COMMANDS[taker], "--profile", "smoke")) for taker in takers
    }
    [(code, line)] = answers
    assert code == 2
    assert line.endswith("GiB are needed at once, this machine has 0.1 GiB")


def test_so_is_a_substrate_that_needs_a_context_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    asked = (*ON_KIND.split(), "--image", "any:1")
    [(code, line)] = {first_line(run_cli_apart(monkeypatch, capsys, *COMMANDS[taker], *asked)) for taker in OF_A_FLEET}
    assert code == 2
    assert line.startswith("scaletest-runner: there is no usable kube context: ")


def first_line(ended: tuple[int, str, str]) -> tuple[int, str]:
    """The exit code, and what stands first on stderr."""
    code, _, told = ended
    return code, told.splitlines()[0]

"""What people look at fits a screen of 100 columns."""

import shlex
import time
from pathlib import Path

import pytest
from kubernetes.client import V1ObjectMeta, V1Pod, V1PodStatus

from scaletest.cli.app import app
from scaletest.cli.status_text import status_lines
from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.gates.listing import all_gates
from scaletest.judge.judging import Judgement
from scaletest.judge.outcome import RunOutcome
from scaletest.report.fitting import fitted, pasteable
from scaletest.report.plan import full_plan_lines
from scaletest.report.screen.plain import verdict_lines
from scaletest.run.fleet.status import FleetStatus
from scaletest.run.steps.guard import Caps
from tests.unit.plans import shipped_plan, smoke_plan
from tests.unit.scaletest.cli.test_cli import run_cli

COLUMNS = 100
COMMANDS = [(), *((command.name or "",) for command in app.registered_commands)]


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def too_long(lines: list[str]) -> list[str]:
    return [line for line in lines if len(line) > COLUMNS]


@pytest.mark.parametrize("command", [*COMMANDS, ("host",), ("tools",)], ids=lambda command: " ".join(command) or "all")
def test_help_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    code, shown = run_cli(monkeypatch, capsys, *command, "--help")
    assert code == 0
    assert "Usage:" in shown
    assert not too_long(shown.splitlines())


@pytest.mark.parametrize("command", ["profiles", "substrates"])
def test_the_lists_of_what_ships_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, shown = run_cli(monkeypatch, capsys, command)
    assert code == 0
    assert len(shown.splitlines()) > 3
    assert not too_long(shown.splitlines())


@pytest.mark.parametrize(
    ("profile", "substrate"),
    [("smoke", "embedded"), ("500k", "example-fat-host"), ("failover-shard-kill", "example-fat-host")],
)
def test_a_plan_fits_with_all_that_is_said_against_it(profile: str, substrate: str) -> None:
    plan = shipped_plan(profile, substrate, soak_seconds=10)
    lines = full_plan_lines(plan, Caps(60, 0.5))
    assert "a run would be refused:" in lines
    assert not too_long(lines)


def test_the_final_table_fits_whatever_went_wrong() -> None:
    plan = smoke_plan()
    why = "the worst of 2 clusters is kwok-cluster-1, which held 40 of 80 requests for 31 s and nothing at all before"
    gates = [judge(gate, Reading(1e6, 400, None, problem=why), 60, 10) for gate in all_gates(plan)]
    facts = RunFacts(plan, "20261118-094502-smoke-df3c")
    facts.judgement = Judgement(gates, [])
    facts.snapshot = {"samples": 1}
    outcome = RunOutcome(
        [
            (ExitCode.GATE_FAILED, f"demandHeldWrongly: {why}"),
            (ExitCode.VOID, why),
            (ExitCode.LEFTOVERS, f"left behind: {why}"),
        ]
    )
    lines = verdict_lines(summarise(facts, outcome), "results/20261118-094502-smoke-df3c")
    assert not too_long(lines)
    assert any("scaletest-runner replay results/20261118-094502-smoke-df3c" in line for line in lines)


def test_status_fits_and_its_commands_can_be_pasted() -> None:
    names = {
        "bigfleet-coordinator-0": "coordinator",
        "bigfleet-coordinator-1": "coordinator",
        "bigfleet-shard-0": "shard",
        "bigfleet-provider-0": "provider",
        "kwok-cluster-0": "kwok-cluster",
        "prometheus-0": "prometheus",
    }
    pods = [
        V1Pod(
            metadata=V1ObjectMeta(name=name, labels={"app.kubernetes.io/component": component}),
            status=V1PodStatus(pod_ip=f"127.201.200.{number}"),
        )
        for number, (name, component) in enumerate(names.items(), 100)
    ]
    run_id, home = "20261118-094502-dev-50-df3c", Path("/home/engineer/.local/state/bigfleet-scaletest/hosts/h1a2b3c4")
    for host_id in ("h1a2b3c4", ""):
        one = FleetStatus(
            host_id, run_id, "127.201.0.1", time.time(), None, "bigfleet-scaletest", home / "kubeconfig", home, pods
        )
        lines = status_lines(one)
        assert not too_long(lines)
        assert any(line.startswith("  remove") for line in lines)


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_command_over_several_lines_is_still_the_same_command(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ask = "curl --cert tls.crt 'https://here:9090/api?query=up and  more'"
    command = f"(cd /home/engineer/state && {ask} {'-v ' * 20})"
    lines = pasteable("  metrics   ", f"{command}  # every series")
    assert max(map(len, lines)) <= columns
    assert len(lines) > 1
    typed = "\n".join(lines).removeprefix("  metrics   ").replace("\\\n", "").partition("#")[0]
    assert shlex.split(typed) == shlex.split(command)


def test_a_long_line_goes_on_below_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert fitted([f"warning     {'word ' * 12}".rstrip(), "short"]) == [
        "warning     word word word word word word word word word",
        "            word word word",
        "short",
    ]

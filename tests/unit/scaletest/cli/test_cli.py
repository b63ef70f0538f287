"""Bad input ends in one sentence with a hint and exit code 2, before anything is started."""

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from scaletest.cli.app import main
from scaletest.errors import UsageError
from scaletest.project import PROFILES
from scaletest.report.screen.plain import Console
from scaletest.run import results_folder
from scaletest.run.request.request import Request, read_plan
from scaletest.toolchain import Toolchain, ensure
from tests.unit.plans import smoke_plan
from tests.unit.scaletest.run.test_guard import KUBECONFIG


def run_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code, shown, told = run_cli_apart(monkeypatch, capsys, *arguments)
    return code, shown + told


def run_cli_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    monkeypatch.setattr("sys.argv", ["scaletest-runner", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
        sys.exit(0)  # as the script does
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Usage"),
        (["--duration", "1m"], "--profile is missing"),
        (["--profile", "smok"], "there is no profile 'smok'"),
        (["--profile", "smoke", "--substrate", "moon"], "there is no substrate 'moon'"),
        (["--profile", "smoke", "--duration", "5"], "is not a duration"),
        (["--profile", "smoke", "--duration", "1s"], "the gate shardConfigurePhaseP99Seconds needs 10"),
        (["--profile", "smoke", "--duration", "5m", "--max-duration", "6m"], "--max-duration is 6m00s"),
        (["--profile", "smoke", "--duration", "3h"], "can never satisfy the demand"),
        (["plan", "--profile", "smoke", "--max-duration", "1m"], "--max-duration is 1m00s"),
        (["--profile", "smoke", "--max-duration", "0s"], "--max-duration is 0s"),
        (["--profile", "smoke", "--context", "mine"], "--context: embedded brings a cluster of its own"),
        (["--profile", "smoke", "--set", "prometheus.enabled=false"], "judged from the chart's own Prometheus"),
        (["--profile", "smoke", "--namespace", "Not_A_Name"], "--namespace: 'Not_A_Name' is not a name"),
        (["up", "--profile", "smoke", "--namespace", "a" * 64], "is not a name"),
        (["up", "--profile", "50k"], "are needed at once, this machine has"),
        (["up", "--profile", "smoke", "--clusters", "5000"], "are needed at once, this machine has"),
        (["--profile", "smoke", "--set", "provider"], "is not KEY=VALUE"),
        (["--profile", "smoke", "--set", "foo.bar=1"], "the chart has no such value"),
        (["--profile", "smoke", "--set", "provider.sed=1"], "the chart has no such value"),
        (["--profile", "smoke", "--set", "shard=3"], "it has values of its own below it"),
        (["--profile", "smoke", "--dry-run", "--set", "shard=3"], "it has values of its own below it"),
        (["--profile", "smoke", "--set", "shard.replicas=3"], "set topology.shardReplicas in the profile"),
        (["--profile", "smoke", "--set", "shard={replicas: 3}"], "shard.replicas comes from the plan"),
        (["up", "--profile", "smoke", "--set", "loadProfile.target=200"], "loadProfile comes from the plan"),
        (["--profile", "smoke", "--dry-run", "--set", "runId=x"], "every run has one of its own"),
        (["--profile", "smoke", "--set", "shard.listPageSize=[1"], "--set shard.listPageSize: '[1' cannot be read"),
        (["--profile", "smoke", "--set", "shard.listPageSize=abc"], "shard.listPageSize = 'abc' (--set)"),
        (["--profile", "smoke", "--dry-run", "--set", "shard.listPageSize=abc"], "shard.listPageSize = 'abc' (--set)"),
        (["up", "--profile", "smoke", "--set", "shard.listPageSize=abc"], "shard.listPageSize = 'abc' (--set)"),
        (
            ["--profile", "smoke", "--set", "grafana.dashboards=1", "--set", "grafana.dashboards.x=1"],
            "another --set gives dashboards the value 1",
        ),
        (
            ["--profile", "smoke", "--set", "grafana.dashboards.x=1", "--set", "grafana.dashboards=1"],
            "gives a value below dashboards",
        ),
        (["plan", "--profile", "smoke", "--seed", "9007199254740992"], "9007199254740991"),
        (["plan", "--profile", "smoke", "--seed", "-1"], "--seed"),
        (["plan", "--profile", "smoke", "--max-cost-usd", "nan"], "--max-cost-usd: nan is not an amount of dollars"),
        (["plan", "--profile", "smoke", "--output", "yaml"], "--output: 'yaml' is not text, json or values"),
        (["status", "--output", "yaml"], "--output: 'yaml' is not text or json"),
        (["host", "status", "--output", "yaml"], "--output: 'yaml' is not text or json"),
        (["tools", "list", "--output", "yaml"], "--output: 'yaml' is not text or json"),
        (["--profile", "smoke", "--display", "loud"], "--display: 'loud' is not live, plain or json"),
        (["--seed", "5", "plan", "--profile", "smoke"], "hint: plan takes its flags behind it: plan --seed …"),
        (["--profile", "smoke", "up"], "--profile stands before up"),
        (["tools", "path", "foo"], "there is no tool 'foo'"),
        (["plan", "--profile", "/bin/true"], "cannot be read as text"),
    ],
)
def test_bad_input_is_one_sentence_and_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code, shown = run_cli(monkeypatch, capsys, *arguments)
    assert code == 2
    assert sentence in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("group", [(), ("host",), ("tools",)], ids=lambda group: " ".join(group) or "all")
def test_the_list_of_commands_says_each_in_a_whole_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], group: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, shown = run_cli(monkeypatch, capsys, *group, "--help")
    assert code == 0
    commands = shown.partition("Commands:\n")[2].splitlines()
    assert len(commands) >= 4
    assert [line for line in commands if not line.endswith(".")] == []
    assert [line for line in commands if line.endswith("...")] == []


def test_a_run_may_be_named_and_takes_the_same_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [run_cli(monkeypatch, capsys, *name, "--help")[1].partition("Options:")[2] for name in ((), ("run",))]
    nameless, named = ({word for word in text.split() if word.startswith("--")} for text in options)
    assert "--profile" in named
    assert named == nameless
    asked = ("--profile", "smoke", "--dry-run", "--duration", "1m", "--seed", "7")
    assert run_cli(monkeypatch, capsys, "run", *asked) == run_cli(monkeypatch, capsys, *asked)
    assert run_cli(monkeypatch, capsys, "run")[0] == 2


@pytest.mark.parametrize("command", [(), ("run",)], ids=["without a name", "run"])
def test_output_is_still_the_folder_of_the_results_and_says_its_new_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "summary.json").write_text("{}")
    asked = (*command, "--profile", "smoke", "--dry-run", "--output", str(tmp_path))
    code, _, told = run_cli_apart(monkeypatch, capsys, *asked)
    assert code == 2
    assert told.splitlines()[:2] == [
        "notice: --output DIR is called --results DIR now",
        f"scaletest-runner: {tmp_path} has a summary.json already",
    ]
    code, _, told = run_cli_apart(monkeypatch, capsys, *asked, "--results", str(tmp_path))
    assert (code, told.splitlines()[0]) == (2, "scaletest-runner: --output is the former name of --results")
    assert "--output" not in run_cli(monkeypatch, capsys, *command, "--help")[1]


def test_help_says_how_to_run_a_profile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs a profile: scaletest-runner --profile smoke" in run_cli(monkeypatch, capsys, "--help")[1]


def test_a_dry_run_shows_the_whole_plan_and_every_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run_cli(
        monkeypatch, capsys, *("--profile", "failover-shard-kill", "--substrate", "example-fat-host"),
        *("--duration", "10s", "--max-cost-usd", "1", "--dry-run"),
    )  # fmt: skip
    assert code == 2
    for part in (
        "scale       20 clusters",
        "configure phase p99",
        "a run would be refused:",
        "after the soak of 10s",
        "the gate shardConfigurePhaseP99Seconds needs 10",
        "not built yet: runnerActions",
        "--max-cost-usd is $1",
        "a run needs --max-cost-usd 2",
        "scaletest-runner: runnerActions: kill-shard-bigfleet-shard-1 fires at",
    ):
        assert part in shown, part


def test_a_dry_run_says_what_a_run_on_a_context_still_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG.format(context="kind-dev"))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    dry = ("--profile", "dev-50", "--substrate", "example-kind-laptop", "--duration", "3m", "--dry-run")
    code, shown = run_cli(monkeypatch, capsys, *dry)
    assert code == 2
    assert "  no image of bigfleet and scaletest for context kind-dev" in shown
    code, shown = run_cli(monkeypatch, capsys, *dry, "--image", "any:1")
    assert (code, "context kind-dev was not asked" in shown) == (0, True)
    code, shown = run_cli(monkeypatch, capsys, *dry, "--image", "any:1", "--context", "kind-prod")
    assert code == 2
    assert "the kubeconfig has no 'kind-prod', but kind-dev" in shown


def test_a_dry_run_refuses_what_the_chart_would_refuse_at_the_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run_cli(
        monkeypatch, capsys, *("--profile", "smoke", "--dry-run", "--max-duration", "1m"),
        *("--set", "shard.listPageSize=abc", "--set", "image.pullPolicy=Sometimes"),
    )  # fmt: skip
    assert code == 2
    assert "scale       2 clusters" in shown, "the plan is shown all the same"
    for reason in ("--max-duration is 1m00s", "- shard.listPageSize: Invalid type", "- image.pullPolicy: "):
        assert reason in shown.partition("a run would be refused:")[2], reason


def test_a_dry_run_that_nothing_is_said_against_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run_cli(monkeypatch, capsys, "--profile", "smoke", "--dry-run")
    assert code == 0
    assert shown.endswith("a run would start\n")


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("full", "has a summary.json already"), ("full/summary.json", "is no folder"), ("new/deeper", "")],
)
def test_a_dry_run_looks_at_the_folder_of_its_results_and_makes_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: str, reason: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "summary.json").write_text("{}")
    code, shown = run_cli(monkeypatch, capsys, "--profile", "smoke", "--dry-run", "--results", str(tmp_path / folder))
    assert (code, reason in shown) == (2 if reason else 0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


@pytest.mark.parametrize("output", ["text", "json", "values"])
@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (["--profile", "500k", "--substrate", "example-fat-host"], "hint: --max-duration 5h32m --max-cost-usd 542"),
        (["--profile", "500k", "--substrate", "example-fat-host", "--max-cost-usd", "600"], "--max-duration 5h32m"),
        (
            ["--profile", "failover-shard-kill", "--substrate", "example-fat-host", "--max-duration", "9h"],
            "not built yet: runnerActions",
        ),
        (["--profile", "smoke", "--duration", "1s"], "hint: make --duration longer"),
        (["--profile", "smoke", "--max-duration", "1m"], "hint: --max-duration 39m"),
    ],
)
def test_a_plan_is_shown_and_ends_with_two_whatever_a_run_would_be_refused_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], plan: list[str], reason: str, output: str
) -> None:
    code, shown = run_cli(monkeypatch, capsys, "plan", *plan, "--output", output)
    assert code == 2
    assert {"text": "a run would be refused:", "json": '"refusals": [', "values": "clusterCount:"}[output] in shown
    assert reason in shown


def test_a_plan_that_a_run_would_follow_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enough = ("--max-duration", "6h", "--max-cost-usd", "600")
    large = ("plan", "--profile", "500k", "--substrate", "example-fat-host", *enough)
    code, shown = run_cli(monkeypatch, capsys, *large)
    assert (code, shown.splitlines()[-1]) == (0, "a run would start")
    code, shown = run_cli(monkeypatch, capsys, *large, "--output", "json")
    assert (code, json.loads(shown)["refusals"]) == (0, [])


def test_the_plan_is_seen_before_anybody_is_asked_for_money(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG.format(context="prod-eks"))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    large = ("up", "--profile", "50k", "--substrate", "example-fat-host")
    code, shown = run_cli(monkeypatch, capsys, *large)
    assert code == 2
    assert "no image of bigfleet and scaletest for context prod-eks" in shown
    code, shown = run_cli(monkeypatch, capsys, *large, "--image", "any:1")
    assert code == 2
    assert 0 <= shown.index("scale       200 clusters") < shown.index("Go on? [y/N]")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "{here}"],
        ["replay", "{here}"],
        ["--profile", "smoke", "--results", "/proc/nope"],
        ["up", "--profile", "smoke", "--results", "/proc/nope"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_binary_is_built_for_a_folder_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    async def provided(names: Iterable[str] | None = None, **_: object) -> Toolchain:
        assert names == ["helm"], "that comes with our own packages"
        return await ensure(names)

    monkeypatch.setattr("scaletest.cli.tools.provide_toolchain", provided)
    code, _ = run_cli(monkeypatch, capsys, *(argument.format(here=tmp_path) for argument in arguments))
    assert code == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a valid profile"),
        ("[" * 5000, "is not valid YAML"),
        ("scale: {machines: 1}\nscale: {machines: 2}", "stands twice"),
        ("apiVersion: bigfleet.io/scaletest/v1\nkind: Profile\nscale: {machines: .inf, density: 1}", "scale.machines"),
        ("{unclosed", "is not valid YAML"),
    ],
)
def test_a_broken_profile_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_plan(Request(profile=str(path)))


def test_a_copied_profile_finds_the_catalogs_that_ship(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((PROFILES / "smoke.yaml").read_text())
    assert read_plan(Request(profile=str(path), duration="1m")).catalog == smoke_plan().catalog


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    run_id, folder = results_folder.make_results_folder(tmp_path / "new" / "folder", "smoke")
    assert re.fullmatch(r"\d{8}-\d{6}-smoke-[0-9a-f]{4}", run_id)
    assert folder.is_dir()
    (folder / "summary.json").write_text("{}")
    with pytest.raises(UsageError, match=r"has a summary\.json already"):
        results_folder.make_results_folder(folder, "smoke")


def test_two_runs_of_one_second_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_folder, "results_home", lambda: tmp_path)
    folders = [results_folder.make_results_folder(None, "smoke") for _ in range(5)]
    elsewhere = [results_folder.make_results_folder(tmp_path / f"{number}", "smoke") for number in range(5)]
    assert len({folder for _, folder in folders}) == 5
    assert len({run_id for run_id, _ in folders + elsewhere}) == 10


@pytest.mark.parametrize("output", ["/proc/nope", "/dev/null/x"])
def test_an_output_that_cannot_be_written_is_refused(output: str) -> None:
    with pytest.raises(UsageError, match="no results can be written"):
        results_folder.make_results_folder(Path(output), "smoke")


def test_a_run_goes_on_when_nobody_reads_any_more() -> None:
    class Closed(io.StringIO):
        def write(self, _: str, /) -> int:
            raise BrokenPipeError

    console = Console(Closed())
    console.line("one")
    console.line("two")
    assert console._closed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_command_that_is_told_to_end_before_it_began_has_the_exit_code_for_that(number: signal.Signals) -> None:
    script = f"""
import os
from scaletest.cli import app
app.app = lambda **_: os.kill(os.getpid(), {int(number)})
app.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "scaletest-runner: interrupted\n")

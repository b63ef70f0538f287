"""Bad input ends in one sentence with a hint and exit code 2, before anything is started."""

from pathlib import Path

import pytest

from scaletest.cli import run as cli_run
from scaletest.cli.app import main
from scaletest.cli.arguments import read_plan
from scaletest.errors import UsageError
from scaletest.report.console import Console
from tests.unit.plans import smoke_plan


def run_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["scaletest-runner", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), "".join(capsys.readouterr())


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
        (["--profile", "smoke", "--set", "provider"], "is not KEY=VALUE"),
        (["--profile", "smoke", "--set", "foo.bar=1"], "the chart has no such value"),
        (["--profile", "smoke", "--set", "provider.sed=1"], "the chart has no such value"),
        (["plan", "--profile", "smoke", "--output", "yaml"], "none of text, json, values"),
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
        read_plan(str(path), "embedded", "", None)


def test_a_copied_profile_finds_the_catalogs_that_ship(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((cli_run.PROJECT / "profiles" / "smoke.yaml").read_text())
    assert read_plan(str(path), "embedded", "1m", None).catalog == smoke_plan().catalog


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    run_id, folder = cli_run._results_folder(tmp_path / "new" / "folder", "smoke")
    assert run_id.endswith("-smoke")
    assert folder.is_dir()
    (folder / "summary.json").write_text("{}")
    with pytest.raises(UsageError, match="already holds a run"):
        cli_run._results_folder(folder, "smoke")


def test_two_runs_of_one_second_get_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_run, "PROJECT", tmp_path)
    folders = {cli_run._results_folder(None, "smoke") for _ in range(5)}
    assert len({folder for _, folder in folders}) == 5
    assert len({run_id for run_id, _ in folders}) == 5


@pytest.mark.parametrize("output", ["/proc/nope", "/dev/null/x"])
def test_an_output_that_cannot_be_written_is_refused(output: str) -> None:
    with pytest.raises(UsageError, match="no results can be written"):
        cli_run._results_folder(Path(output), "smoke")


def test_a_run_goes_on_when_nobody_reads_any_more() -> None:
    class Closed:
        def write(self, _: str) -> None:
            raise BrokenPipeError

    console = Console(Closed())  # type: ignore[arg-type]
    console.line("one")
    console.line("two")
    assert console._closed

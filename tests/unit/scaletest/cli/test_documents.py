"""`validate`, `schema`, `profiles` and `substrates`, as a user sees them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from scaletest.cli.app import main
from scaletest.model.files import reading
from scaletest.project import PROFILES, PROJECT, SUBSTRATES

BROKEN = """\
apiVersion: bigfleet.io/scaletest/v1
kind: Profile
scale: {machines: 0, density: x}
catalog: {archetypes: smoke}
"""


class Run(Protocol):
    """Run a command line: exit code, stdout, stderr."""

    def __call__(self, *arguments: str) -> tuple[int, str, str]: ...


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["scaletest-runner", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


def test_every_document_that_ships_is_valid(run: Run) -> None:
    files = sorted(str(path) for folder in (PROFILES, SUBSTRATES) for path in folder.rglob("*.yaml"))
    code, out, err = run("validate", *files)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == len(files)


def test_names_that_ship_can_be_validated_too(run: Run) -> None:
    code, out, _ = run("validate", "smoke", "embedded")
    assert code == 0
    first, second = out.splitlines()
    assert first.endswith("smoke.yaml: valid profile (catalog smoke)")
    assert second.endswith("embedded.yaml: valid substrate")


def test_all_problems_of_all_files_are_shown_and_the_good_ones_too(run: Run, tmp_path: Path) -> None:
    bad, worse = tmp_path / "bad.yaml", tmp_path / "worse.yaml"
    bad.write_text(BROKEN)
    worse.write_text("a: [\n")
    code, out, err = run("validate", str(bad), "smoke", str(worse), str(tmp_path), "no-such")
    assert code == 2
    assert out.endswith("smoke.yaml: valid profile (catalog smoke)\n")
    assert err.startswith("scaletest-runner: 4 of 5 files cannot be used")
    for line in (
        "bad.yaml is not a valid profile: 2 problems",
        "bad.yaml:3:19: scale.machines: must be from 1 to 100,000,000, got 0",
        "bad.yaml:3:31: scale.density: must be a whole number from 1 to 1000, got the text x",
        "worse.yaml is not valid YAML",
        "worse.yaml:2:1: a value is missing here",
        f"{tmp_path} is a folder",
        "there is no profile, substrate or catalog 'no-such'",
    ):
        assert line in err
    assert "Traceback" not in err


def test_one_bad_file_is_refused_as_a_run_would_refuse_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BROKEN)
    assert run("validate", str(path)) == run("plan", "--profile", str(path))


def test_nothing_to_validate_is_a_usage_error(run: Run) -> None:
    code, _, err = run("validate")
    assert code == 2
    assert "Missing argument" in err


@pytest.mark.parametrize("kind", ["profile", "substrate", "catalog", "summary"])
def test_schema_prints_what_is_checked_in(run: Run, kind: str) -> None:
    code, out, _ = run("schema", kind)
    assert code == 0
    assert out == (PROJECT / "docs" / "schemas" / f"{kind}.schema.json").read_text(), "`make schemas`"


def test_a_schema_that_is_not_there(run: Run) -> None:
    code, _, err = run("schema", "profil")
    assert code == 2
    assert "there is no schema 'profil'; did you mean profile?" in err


def test_profiles_shows_a_table_by_size(run: Run) -> None:
    code, out, _ = run("profiles")
    assert code == 0
    title, *rows = out.splitlines()
    assert title.split() == ["name", "scale.machines", "Pods", "soak", "description"]
    smoke = next(row for row in rows if row.startswith("smoke "))
    assert smoke.split()[1:4] == ["20", "80", "2m40s"]
    assert smoke.index("The thread") == title.index("description")
    sizes = [int(row.split()[1].replace(",", "")) for row in rows]
    assert sizes == sorted(sizes)
    assert len(rows) == len(list(PROFILES.glob("*.yaml")))


def test_substrates_shows_hosts_and_prices(run: Run) -> None:
    code, out, _ = run("substrates")
    assert code == 0
    title, *rows = out.splitlines()
    assert title.split() == ["name", "host", "Pods/cluster", "clusters/host", "$/h", "description"]
    embedded = next(row for row in rows if row.startswith("embedded "))
    assert "2,500" in embedded
    assert "0.00" in embedded
    assert len(rows) == len(list(SUBSTRATES.glob("*.yaml")))


@pytest.mark.parametrize("command", ["profiles", "substrates"])
def test_the_tables_come_as_json_too(run: Run, command: str) -> None:
    code, out, _ = run(command, "-o", "json")
    assert code == 0
    entries = json.loads(out)
    assert {"smoke", "embedded"} & {entry["name"] for entry in entries}
    assert all("description" in entry for entry in entries)
    assert run(command, "-o", "yaml")[0] == 2


def test_a_shipped_file_that_is_broken_is_a_row_not_a_traceback(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "good.yaml").write_text((PROFILES / "smoke.yaml").read_text())
    (tmp_path / "bad.yaml").write_text(BROKEN)
    (tmp_path / "huge.yaml").write_text("#" * 300_000)
    monkeypatch.setitem(reading._SHIPPED, "profile", tmp_path)
    code, out, _ = run("profiles")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "broken: " in rows["bad"]
    assert "bad.yaml:3:19: scale.machines: must be from 1" in rows["bad"]
    assert "is larger than" in rows["huge"]
    assert rows["good"].split()[1] == "20"
    entries = {entry["name"]: entry for entry in json.loads(run("profiles", "-o", "json")[1])}
    assert len(entries["bad"]["problems"]) == 2


def test_help_does_not_load_the_models() -> None:
    script = (
        "import sys\n"
        "from scaletest.cli.app import app\n"
        "heavy = {'pydantic', 'yaml', 'kubernetes', 'numpy', 'rich'} & sys.modules.keys()\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr

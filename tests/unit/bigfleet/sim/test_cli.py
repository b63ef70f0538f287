import json
from pathlib import Path

import pytest

from bigfleet.sim import cli


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list"]) == 0
    out = capsys.readouterr().out
    assert "withdrawal  " in out
    assert "cardinality-2580  " in out


def test_run_writes_the_trace_to_stdout_and_the_promises_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["run", "withdrawal"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[0])["kind"] == "scenario_start"
    assert "✓ all are Idle" in captured.err
    assert captured.err.endswith("PASS\n")


def test_run_can_report_and_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "run.svg"
    assert cli.run(["run", "silence-is-not-withdrawal", "-o", "json", "--picture", str(picture)]) == 0
    assert json.loads(capsys.readouterr().out)["actions"]["Reclaim"] == 0
    assert picture.read_text().startswith("<svg ")


def test_a_promise_that_does_not_hold_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "short.yaml"
    path.write_text(
        "{name: short, description: d, durationSeconds: 60, expect: {noShortfallFromSeconds: 20}, "
        "machines: [{name: a, count: 1, instanceType: t, allocatable: {cpu: 1}}], "
        "clusters: [{name: c, workloads: [{name: w, replicas: 5, pod: {cpu: 1}}]}]}"
    )
    assert cli.run(["run", str(path)]) == 1
    assert "✗ nothing is short from 20 s on" in capsys.readouterr().err


def test_record_then_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "GOLDEN", tmp_path)
    assert cli.run(["verify", "withdrawal"]) == 1
    assert "has no golden trace; `fauxctl record withdrawal` makes one" in capsys.readouterr().out
    assert cli.run(["record", "withdrawal"]) == 0
    assert cli.run(["verify", "withdrawal"]) == 0
    golden = tmp_path / "withdrawal.jsonl"
    golden.write_text(golden.read_text().replace("m-007", "m-700"))
    assert cli.run(["verify", "withdrawal"]) == 1
    assert f"differs from {golden} at line 3" in capsys.readouterr().out


def test_the_golden_trace_of_somebodys_own_file_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the file calls itself: `steady` ships, and keeps its own."""
    monkeypatch.setattr(cli, "GOLDEN", tmp_path / "shipped")
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "{name: steady, description: d, durationSeconds: 60, "
        "machines: [{name: a, count: 1, instanceType: t, allocatable: {cpu: 1}}], clusters: [{name: c}]}"
    )
    assert cli.run(["verify", str(mine)]) == 1
    assert f"`fauxctl record {mine}` makes one" in capsys.readouterr().out
    assert cli.run(["record", str(mine)]) == 0
    assert (tmp_path / "mine.jsonl").exists()
    assert cli.run(["verify", str(mine)]) == 0


def test_a_storm_that_hits_nothing_breaks_a_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "idle.yaml"
    path.write_text(
        "{name: idle, description: d, durationSeconds: 60, faults: [{kind: lose, atSeconds: 30, number: 3}], "
        "machines: [{name: a, count: 1, instanceType: t, allocatable: {cpu: 1}}], clusters: [{name: c}]}"
    )
    assert cli.run(["run", str(path)]) == 1
    assert "✗ the storm at 30 s hits machines  0" in capsys.readouterr().err


def test_record_can_write_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    assert cli.run(["record", "drain-failure-withdrawal", str(path)]) == 0
    assert path.read_text().count("\n") == 4
    assert cli.run(["record", "drain-failure-withdrawal", str(tmp_path / "typo" / "trace.jsonl")]) == 2
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "nothing"], "there is no scenario 'nothing'"),
        (["run", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["run", "withdrawal", "-o", "json"], "withdrawal is scripted: it has a trace, and neither a report"),
        (["run", "withdrawal", "--picture", "x.svg"], "withdrawal is scripted: it has a trace, and neither a report"),
        (["run", "withdrawal", "--seed", "7"], "withdrawal is scripted: it goes one way only"),
        (["run", "steady", "--picture", "x.png"], "--picture x.png: it is an SVG, and should be called so: x.svg"),
        (["run", "steady", "--picture", "nowhere/x.svg"], "--picture nowhere/x.svg: there is no folder nowhere"),
        (["soak", "--cycles", "0"], "--cycles must be at least 1"),
    ],
)
def test_a_wrong_use_ends_with_2_and_a_sentence(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert capsys.readouterr().err.startswith(f"fauxctl: {complaint}")


def test_soak_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["soak", "--cycles", "20"]) == 0
    assert "✓ no machine leaked" in capsys.readouterr().out

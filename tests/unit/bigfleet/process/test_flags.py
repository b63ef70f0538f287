"""Flags come from the options dataclass: names, types, defaults, help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from bigfleet.cli import PROCESSES as BIGFLEET
from bigfleet.process.dispatch import dispatch
from bigfleet.process.flags import parse_options
from scaletest.cluster.cli import PROCESSES as CLUSTER


@dataclass(frozen=True)
class Inner:
    slow: bool
    ratio: float


@dataclass(frozen=True)
class Options:
    """What a test process can be told."""

    listen: str
    """Where to listen."""
    data_dir: Path | None = None
    """Where state is kept."""
    rate: float = 0.5
    guard: bool = True
    extra: tuple[str, ...] = ()
    output: Literal["text", "json"] = field(default="text", metadata={"short": "-o"})
    faults: Inner = field(default_factory=lambda: Inner(slow=False, ratio=0.1))


def test_flags_become_typed_options() -> None:
    options = parse_options(
        Options,
        "test",
        [
            "--listen",
            "a:1",
            "--data-dir",
            "/d",
            "--rate",
            "2",
            "--no-guard",
            "--extra",
            "x",
            "y",
            "--extra",
            "z",
            "-o",
            "json",
            "--faults-slow",
        ],
    )
    assert options == Options("a:1", Path("/d"), 2.0, False, ("x", "y", "z"), "json", Inner(slow=True, ratio=0.1))


def test_what_is_not_given_keeps_its_default() -> None:
    assert parse_options(Options, "test", ["--listen", "a:1"]) == Options("a:1")


def test_help_is_taken_from_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(Options, "test", ["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "Where to listen." in shown
    assert "Where state is kept." in shown
    assert "(default: 0.5)" in shown


@pytest.mark.parametrize(
    "arguments",
    [[], ["--listen"], ["--listen", "a", "--rate", "x"], ["--listen", "a", "-o", "xml"], ["--listen", "a", "--nope"]],
)
def test_nonsense_ends_with_a_sentence_and_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(Options, "test", arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("test: ")
    assert shown.endswith("\nhint: `test --help` shows what there is\n")


@pytest.mark.parametrize(
    ("program", "name"), [("bigfleet", name) for name in BIGFLEET] + [("scaletest-cluster", name) for name in CLUSTER]
)
def test_every_process_can_say_what_it_takes(program: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dispatch(program, BIGFLEET if program == "bigfleet" else CLUSTER, [name, "--help"])
    assert ended.value.code == 0
    assert f"usage: {program} {name}" in capsys.readouterr().out


def test_no_command_shows_the_menu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dispatch("bigfleet", BIGFLEET, [])
    assert ended.value.code == 2
    assert "decides for its clusters and drives the provider" in capsys.readouterr().err

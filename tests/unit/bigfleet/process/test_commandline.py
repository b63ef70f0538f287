"""What all our command lines do alike: two lines for a wrong use, a version, and a word about output that is lost."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

PROGRAMS = {
    "bigfleet": "bigfleet.cli",
    "bigfleetctl": "bigfleet.ctl.cli",
    "fauxctl": "bigfleet.sim.cli",
    "scaletest-runner": "scaletest.cli",
    "scaletest-cluster": "scaletest.cluster.cli",
}
# One that prints much, and one that argparse prints.
WRITING = [
    ("bigfleet", "--help"),
    ("bigfleet", "conformance", "--list"),
    ("bigfleet", "certs", "--help"),
    ("bigfleetctl", "--help"),
    ("fauxctl", "list"),
    ("scaletest-runner", "schema", "profile"),
]


def said(program: str, *arguments: str, stdout: int = subprocess.PIPE) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    command = [sys.executable, "-m", PROGRAMS[program], *arguments]
    ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_tells_its_version(program: str) -> None:
    assert said(program, "--version") == (0, f"{program} {metadata.version('bigfleet-scaletest')}\n", "")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("bigfleet chard", "bigfleet: there is no command 'chard'\nhint: did you mean 'shard'? `bigfleet --help`"),
        ("bigfleet faults --plaintext", "bigfleet faults: the following arguments are required: --target\nhint: "),
        ("bigfleetctl get shards -o xml", "bigfleetctl get shards: argument -o/--output: invalid choice: 'xml'"),
        ("bigfleet certs issue --ca", "bigfleet certs issue: argument --ca: expected one argument\nhint: "),
        ("fauxctl", "fauxctl: the following arguments are required: COMMAND\nhint: `fauxctl --help`"),
    ],
)
def test_a_wrong_use_is_told_in_two_lines(line: str, complaint: str) -> None:
    code, output, errors = said(*line.split())
    assert (code, output) == (2, "")
    assert errors.startswith(complaint), errors
    assert errors.count("\n") == 2, errors


@pytest.mark.parametrize("line", WRITING, ids=" ".join)
def test_a_disk_that_is_full_is_told_in_one_line(line: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        code, _, errors = said(*line, stdout=full.fileno())
    assert (code, errors) == (2, f"{line[0]}: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("line", WRITING[:-1], ids=" ".join)
def test_a_reader_that_has_left_is_no_success_and_no_reason_to_talk(line: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        code, _, errors = said(*line, stdout=writing)
    finally:
        os.close(writing)
    assert (code, errors) == (141, "")

"""How `scaletest-runner` ends, as a number. Which one wins when several hold: scaletest/judge/outcome.py."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How `scaletest-runner` ends; README.md lists them for people."""

    PASSED = 0
    GATE_FAILED = 1
    USAGE = 2
    NOT_STEADY = 3
    INSTALL_FAILED = 4
    UNMEASURED = 5
    VOID = 6
    LEFTOVERS = 7
    CAP_REACHED = 8
    INTERRUPTED = 130

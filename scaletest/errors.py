"""What can go wrong, as values that carry an exit code and a hint.

ScaletestError
├── UsageError        2   a wrong flag, profile, substrate or catalog
├── NotSteady         3   steady state not reached
├── InstallError      4   the fleet could not be brought up
│   ├── ToolchainError    a binary could not be built or found
│   ├── HostError         the embedded host did not start
│   └── HelmError         Helm said no
├── Leftovers         7   something of the run is still there after teardown
├── CapReached        8   the cap on time or cost was hit
└── Interrupted     130   Ctrl-C, for every command but a run

Gate verdicts (1, 5, 6) and Ctrl-C in a run are not exceptions: they are its outcome (scaletest/judge/outcome.py).
"""

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


class ScaletestError(Exception):
    """Something a user should read: one sentence, and what to do about it."""

    # An ExitCode in the runner; the supervisors in pods end with codes of their own.
    exit_code: int = ExitCode.GATE_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ScaletestError):
    """Bad input; nothing was started."""

    exit_code = ExitCode.USAGE


class NotSteady(ScaletestError):
    """The fleet came up but did not settle."""

    exit_code = ExitCode.NOT_STEADY


class InstallError(ScaletestError):
    """The fleet could not be brought up."""

    exit_code = ExitCode.INSTALL_FAILED


class ToolchainError(InstallError):
    """A binary could not be built or found."""


class HostError(InstallError):
    """The embedded host did not start."""


class HelmError(InstallError):
    """Helm failed; the message is Helm's own."""


class Leftovers(ScaletestError):
    """Teardown ended, but something of the run is still there."""

    exit_code = ExitCode.LEFTOVERS


class CapReached(ScaletestError):
    """The run hit its cap on time or cost."""

    exit_code = ExitCode.CAP_REACHED


class Interrupted(ScaletestError):
    """The user pressed Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED

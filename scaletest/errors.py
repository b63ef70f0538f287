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


class ScaletestError(Exception):
    """Something a user should read: one sentence, and what to do about it."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ScaletestError):
    """Bad input; nothing was started."""

    exit_code = 2


class NotSteady(ScaletestError):
    """The fleet came up but did not settle."""

    exit_code = 3


class InstallError(ScaletestError):
    """The fleet could not be brought up."""

    exit_code = 4


class ToolchainError(InstallError):
    """A binary could not be built or found."""


class HostError(InstallError):
    """The embedded host did not start."""


class HelmError(InstallError):
    """Helm failed; the message is Helm's own."""


class Leftovers(ScaletestError):
    """Teardown ended, but something of the run is still there."""

    exit_code = 7


class CapReached(ScaletestError):
    """The run hit its cap on time or cost."""

    exit_code = 8


class Interrupted(ScaletestError):
    """The user pressed Ctrl-C."""

    exit_code = 130

"""What can go wrong, by its cause, as values that carry an exit code and a hint.

ScaletestError                  1
├── UsageError                  2   a wrong flag, profile, substrate or catalog
├── NotSteady                   3   steady state not reached
├── InstallError                4   the fleet could not be brought up
│   ├── ToolchainError          4   a binary could not be built or found
│   ├── HostError               4   the embedded host did not start
│   └── HelmError               4   Helm said no
├── KubeApiError                4   the Kubernetes API that carries the run; 5 once the fleet is installed
│   ├── KubeApiUnreachable      4   no answer: refused, reset, timed out, or a certificate that is not trusted
│   ├── KubeApiDenied           4   401 and 403: credentials or rights are missing
│   ├── KubeApiConflict         4   409: an object of this name is there, or has changed
│   └── KubeApiNotFound         4   404: no such object
├── EvidenceError               5   the run cannot be measured
│   ├── PrometheusUnreachable   5   Prometheus did not answer, or refused the query
│   ├── SnapshotFailed          5   no usable snapshot of Prometheus could be kept
│   └── LedgerFailed            5   no usable ledger of the provider could be kept
├── Leftovers                   7   something of the run is still there after teardown
├── CapReached                  8   the cap on time or cost was hit
└── Interrupted               130   Ctrl-C, for every command but a run

Foreign exceptions become these at their port: the Kubernetes client's in scaletest/run/target/kube_api.py, Helm's in
helm.py beside it, those of Prometheus's client in scaletest/judge/prometheus.py. Errors that never leave their package
derive from ScaletestError there. Gate verdicts (1, 5, 6) and Ctrl-C in a run are not exceptions: they are its outcome
(scaletest/judge/outcome.py).
"""

from scaletest.exit_codes import ExitCode


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


class KubeApiError(ScaletestError):
    """The Kubernetes API that carries the run did not do what it was asked, in whatever phase."""

    exit_code = ExitCode.INSTALL_FAILED


class KubeApiUnreachable(KubeApiError):
    """It gave no answer; whether it did what was asked is unknown."""


class KubeApiDenied(KubeApiError):
    """It does not accept the credentials (401), or does not allow the request (403)."""


class KubeApiConflict(KubeApiError):
    """An object of this name is there already, or has changed since it was read."""


class KubeApiNotFound(KubeApiError):
    """There is no such object."""


class EvidenceError(ScaletestError):
    """What a verdict is made from is missing."""

    exit_code = ExitCode.UNMEASURED


class PrometheusUnreachable(EvidenceError):
    """Prometheus did not answer, or refused the query."""


class SnapshotFailed(EvidenceError):
    """No usable snapshot could be kept."""


class LedgerFailed(EvidenceError):
    """No usable ledger could be kept."""


class Leftovers(ScaletestError):
    """Teardown ended, but something of the run is still there."""

    exit_code = ExitCode.LEFTOVERS


class CapReached(ScaletestError):
    """The run hit its cap on time or cost."""

    exit_code = ExitCode.CAP_REACHED


class Interrupted(ScaletestError):
    """The user pressed Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED

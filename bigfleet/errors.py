"""One base for all that BigFleet can raise, so that a caller can tell our errors from those of libraries.

BigFleetError
├── core            QuantityError
├── engine          NotBuilt
├── kube            KubeError, KubeConfigError
├── process         CannotStart, InUse
├── rpc             CoordinatorError, Malformed
├── security        BadRequest, CannotListen, CertsError, EnrolmentFailed, InvalidIdentity, NotEntitled, NotYet
├── coordinator     BadDomainsFile, CannotServe, EtcdUnavailable, MemberDied, StoreError
├── operator        CertificateRenewed, SessionEnded, TemplateError, UnsupportedRequest
├── podcontroller   DefaultsError
├── provider        FaultsRefused, FleetError, KitError, NotConformant, NotJudged, StorageError, SuiteInterrupted,
│                   TransitionFailed, Verdict
├── shard           BadMachine, BadRollup, BlobRefused, CorruptDomains, CorruptEpoch, CorruptProviders,
│                   CorruptQuotas, IllegalMove, NoSession, ProviderError, Rejected
├── sim             CallRefused, ScenarioError
├── allinone        PartEnded
└── ctl             CtlError

An error lives beside the code that raises it; where a package has a tree of its own (kube, ctl, provider/kit,
coordinator/store), that module draws it. One that stands for a wrong value is a ValueError too. An error that ends a
process has an `exit_code`, which bigfleet/process/daemon.py reads.
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """How the commands of BigFleet end, where not with 0. `scaletest-runner` has codes of its own (ExitCode)."""

    FAILED = 1
    WRONG_USE = 2
    NOT_JUDGED = 5
    """The conformance suite could not reach the provider, or could not judge it."""
    INTERRUPTED = 130
    """By Ctrl-C or SIGTERM."""
    READER_LEFT = 141
    """What a shell shows for a program ended by SIGPIPE, as most are when the reader of their output leaves."""


class BigFleetError(Exception):
    """Whatever BigFleet raises on purpose."""

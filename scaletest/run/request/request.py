"""The options of `run`, `up`, `plan` and `simulate` as they were typed, and how their text is read."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scaletest.errors import UsageError
from scaletest.host.machine import this_machine
from scaletest.model.documents.durations import parse_duration
from scaletest.model.files.reading import read_profile, read_substrate
from scaletest.model.names import NAMESPACE
from scaletest.model.plan import Plan, make_plan
from scaletest.run.steps.guard import DEFAULT_CAPS, Caps

# Beyond it a number in JSON is no longer exact.
LARGEST_SEED = 2**53 - 1
# The profile whose catalog describes the machines when there is no demand.
_PROFILE_WITHOUT_DEMAND = "smoke"
_NAMESPACE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_WHOLE_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Where a fleet goes, and with which values."""

    namespace: str = NAMESPACE
    # A kube context; empty: the current one, where the substrate needs one.
    context: str = ""
    images: Sequence[str] = ()
    prometheus_url: str = ""
    # KEY=VALUE, as Helm's --set.
    sets: Sequence[str] = ()
    # Another chart than ours.
    chart: Path | None = None
    # The folder for the results; None: one of its own.
    results: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for; a text is empty where its option was left out."""

    profile: str = ""
    substrate: str = "embedded"
    duration: str = ""
    seed: str = ""
    max_duration: str = ""
    max_cost_usd: str = ""
    # None: nothing is asked about a cluster, as by `plan`.
    target: TargetOptions | None = None
    # Another number of clusters, or of Pods in all of them together, than the profile's.
    clusters: int | None = None
    pods: int | None = None
    # Whether it is to come to a verdict; `up` only builds a fleet.
    judged: bool = True

    @property
    def is_resized(self) -> bool:
        return self.clusters is not None or self.pods is not None


def read_plan(request: Request) -> Plan:
    """The plan that is asked for."""
    if not request.profile and (request.judged or request.pods is None):
        or_without = "" if request.judged else ", or --clusters 3 --pods 0 for no demand"
        raise UsageError("--profile is missing", hint=f"try --profile smoke{or_without}")
    profile, catalog, profile_name = read_profile(request.profile or _PROFILE_WITHOUT_DEMAND)
    substrate, substrate_name = read_substrate(request.substrate)
    return make_plan(
        profile,
        profile_name,
        catalog,
        substrate,
        substrate_name,
        this_host=this_machine(),
        soak_seconds=_read_duration("--duration", request.duration) if request.duration else None,
        seed=_read_seed(request.seed) if request.seed else None,
    )


def read_caps(request: Request) -> Caps:
    """The caps that are asked for; where one is left out, its default."""
    longest, dearest = request.max_duration, request.max_cost_usd
    return Caps(
        _read_duration("--max-duration", longest) if longest else DEFAULT_CAPS.max_duration_seconds,
        _read_dollars("--max-cost-usd", dearest) if dearest else DEFAULT_CAPS.max_cost_usd,
    )


def refuse_wrong_namespace(name: str) -> None:
    """Raises UsageError for what Kubernetes takes for no namespace."""
    if not _NAMESPACE_NAME.fullmatch(name):
        raise UsageError(
            f"--namespace: {name!r} is not a name", hint="use a-z, 0-9 and - between them, at most 63 characters"
        )


def _read_seed(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or len(text) > len(str(LARGEST_SEED)) or int(text) > LARGEST_SEED:
        raise UsageError(f"--seed: {text!r} is not a whole number from 0 to {LARGEST_SEED}")
    return int(text)


def _read_dollars(flag: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise UsageError(f"{flag}: {text} is not an amount of dollars")
    return amount


def _read_duration(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error

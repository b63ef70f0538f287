"""A limit of the self-check, judged: did the load come, and was the machine strained?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from scaletest.model.documents.substrate import SelfCheck
from scaletest.model.json_types import Json

CheckVerdict = Literal["ok", "over", "unmeasured", "skipped"]
# `load`: beyond the limit the verdict is void. `strain`: it explains what strain can cause, and nothing else.
About = Literal["load", "strain"]
CheckUnit = Literal["share", "s", "%"]


@dataclass(frozen=True)
class _Limit:
    title: str
    about: About
    unit: CheckUnit
    # The value must reach the limit, rather than stay at or below it.
    least: bool = False


LIMITS = {
    "loadDeliveredFraction": _Limit("load that came in time", "load", "share", least=True),
    "loadScrapeGapSeconds": _Limit("load unseen", "load", "s"),
    "missedScrapesFraction": _Limit("scrapes missed by a target", "strain", "share"),
    "eventLoopLagP99Seconds": _Limit("event-loop lag p99", "strain", "s"),
    "runDelayFraction": _Limit("BigFleet waits for a core", "strain", "share"),
    "cpuPressurePercent": _Limit("CPU pressure", "strain", "%"),
    "apiserverMutatingP99Seconds": _Limit("apiserver write p99", "strain", "s"),
}


@dataclass(frozen=True)
class CheckRecord:
    """One judged limit, as summary.json keeps it."""

    key: str
    title: str
    about: About
    unit: CheckUnit
    limit: float
    least: bool
    verdict: CheckVerdict
    reason: str
    # The worst that was measured; None if nothing was.
    value: float | None = None

    def document(self) -> dict[str, Json]:
        """For the diary: the fields above, without those that have no value."""
        return {name: value for name, value in vars(self).items() if value is not None}


def check(limits: SelfCheck, key: str, verdict: CheckVerdict, reason: str, value: float | None = None) -> CheckRecord:
    known = LIMITS[key]
    return CheckRecord(
        key, known.title, known.about, known.unit, limit_of(limits, key), known.least, verdict, reason, value
    )


def judged(limits: SelfCheck, key: str, value: float, reason: str) -> CheckRecord:
    limit = limit_of(limits, key)
    over = value < limit if LIMITS[key].least else value > limit
    return check(limits, key, "over" if over else "ok", reason, value)


def limit_of(limits: SelfCheck, key: str) -> float:
    return float(limits.model_dump(by_alias=True)[key])


def unmeasured(limits: SelfCheck, keys: Iterable[str], reason: str) -> list[CheckRecord]:
    return [check(limits, key, "unmeasured", reason) for key in keys]


def load_that_did_not_come(records: Iterable[CheckRecord]) -> str:
    """In one sentence; empty if it came."""
    over = [record.reason for record in records if record.about == "load" and record.verdict == "over"]
    return f"the load did not come, so the verdict is void: {'; '.join(over)}" if over else ""


def strains(records: Iterable[CheckRecord]) -> list[CheckRecord]:
    """What was beyond its limit of strain."""
    return [record for record in records if record.about == "strain" and record.verdict == "over"]

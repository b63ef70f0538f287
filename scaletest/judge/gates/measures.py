"""How a gate's value comes about: a query, the worst of many members, a gap, seconds outside of an envelope, a count.

Data only; `readings` asks Prometheus. `{w}` in a query is the window in seconds.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

Source = Literal["PromQL", "computed from PromQL", "Kubernetes API"]


@dataclass(frozen=True)
class Promql:
    """The one number that a query yields."""

    query: str
    source: ClassVar[Source] = "PromQL"

    def text(self, seconds: int) -> str:
        return self.query.replace("{w}", f"{seconds}s")


@dataclass(frozen=True)
class WorstMember(Promql):
    """The worst of the numbers that a query yields, one for each member; it is named.

    `expects` says whether a member that is missing is a finding: every cluster rolls up, not every cluster loses a
    machine.
    """

    # Labels that name a member.
    members: tuple[str, ...] = ("cluster", "pod")
    expects: Literal["clusters", "nothing"] = "nothing"
    # Labels whose value names the component to blame, the first that is one.
    blames: tuple[str, ...] = ()


@dataclass(frozen=True)
class AtEnd(WorstMember):
    """The worst member by a query that compares two moments of the soak: it says nothing before the soak has ended."""

    source: ClassVar[Source] = "computed from PromQL"


@dataclass(frozen=True)
class Growth:
    """What counters grew by, over all members, added up from samples: rate() invents and hides small counts."""

    counter: str
    source: ClassVar[Source] = "computed from PromQL"

    def text(self, seconds: int) -> str:
        return f"growth of {self.counter} over {seconds}s"


@dataclass(frozen=True)
class Share:
    """The smallest share of any member: what one counter grew by, of what another one did."""

    part: str
    whole: str
    # The label that both have, after `label_replace`.
    member: str
    source: ClassVar[Source] = "computed from PromQL"

    def text(self, seconds: int) -> str:
        return f"growth of {self.part} ÷ growth of {self.whole}, by {self.member}, over {seconds}s"


@dataclass(frozen=True)
class LongestGap:
    """The longest time in which a counter did not grow, from the start of the window to its end; the worst member."""

    counter: str
    member: str
    expects: Literal["clusters", "shards"]
    source: ClassVar[Source] = "computed from PromQL"

    def text(self, seconds: int) -> str:
        return f"longest time without growth of {self.counter}, by {self.member}, over {seconds}s"


@dataclass(frozen=True)
class Envelope:
    """A claim, and the lowest and highest that its witness was lately; all three by the same labels."""

    claim: str
    lowest: str
    highest: str
    by: tuple[str, ...]
    # What a claim may be off besides half a percent: a query, by the same labels or fewer of them; empty: nothing.
    slack: str = ""


@dataclass(frozen=True)
class SecondsOutside:
    """For how long a claim was outside of its witness's envelope; the worst member of all of them."""

    envelopes: tuple[Envelope, ...]
    # Every cluster must have a witness.
    expects: Literal["clusters", "nothing"] = "clusters"
    # What a program between witness and claim has passed on: if that is right, `blame_beyond` is to blame.
    go_between: Envelope | None = None
    blame_beyond: Literal["shard", "operator", "coordinator"] | None = None
    source: ClassVar[Source] = "computed from PromQL"

    def text(self, seconds: int) -> str:
        parts = [f"{one.claim} within [{one.lowest}, {one.highest}]" for one in self.envelopes]
        return f"seconds outside, over {seconds}s: " + "; ".join(parts)


@dataclass(frozen=True)
class QuietReclaims:
    """Reclaims, counted from the first quiet moment."""

    query: str
    source: ClassVar[Source] = "computed from PromQL"

    def text(self, seconds: int) -> str:
        return f"growth of {self.query} over {seconds}s, from its first quiet moment on"


@dataclass(frozen=True)
class Recovery:
    """How long a step of demand took to be covered (up), or its excess to be given back (down); the slowest of them."""

    up: bool
    query: str
    source: ClassVar[Source] = "computed from PromQL"

    def text(self, seconds: int) -> str:  # noqa: ARG002
        return f"{self.query} in the windows of steps {'upwards' if self.up else 'downwards'}"


@dataclass(frozen=True)
class Noted:
    """What the run itself saw."""

    what: str
    source: ClassVar[Source] = "Kubernetes API"

    def text(self, seconds: int) -> str:  # noqa: ARG002
        return self.what


Measure = Promql | Growth | Share | LongestGap | SecondsOutside | QuietReclaims | Recovery | Noted

"""What a leader remembers of the shards that reported to it; the next leader learns it anew from their reports."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.choose_owner import DomainListing
from bigfleet.coordinator.ownership import Domain
from bigfleet.core.labels import check_label_key, check_label_value

# Six heartbeats: a shard that has said nothing for so long is not waited for.
SILENT_SECONDS = 60.0
# What a report may carry (docs/reference/wire.md#coordinator); a shard that sends more gets no more of our memory.
MOST_DOMAINS = 10_000


@dataclass
class LastReport:
    """What a shard said last, and when we heard it."""

    received_at_unix_ns: int
    cycle: int
    summary: pb.ShardSummary
    shortfalls: list[pb.Shortfall]


@dataclass
class KnownShard:
    """A registered shard that has reported to this leader."""

    address: str
    report: LastReport
    heard_at: float = 0.0
    """When it last reported, on a clock that nobody sets."""
    position: tuple[int, int] = (0, 0)
    """Epoch and number of the last report."""
    owns: frozenset[Domain] | None = None
    """What is on its disk, as of its last report; None: it does not say."""
    leaving: frozenset[Domain] = frozenset()
    """Given up, but calls for their machines may still be on their way."""
    owns_everything: bool = False
    """Every machine of its provider, because it was never told of a domain."""
    listed: Mapping[Domain, DomainListing] = field(default_factory=dict)
    """What its providers list of the domains that the leader assigns."""
    instructions: dict[str, pb.CoordinatorInstruction] = field(default_factory=dict)
    """Not yet acknowledged, by id, in order of their sequence numbers; sent with every answer."""

    @property
    def held(self) -> frozenset[Domain]:
        """The domains whose machines it may still act on."""
        return (self.owns or frozenset()) | self.leaving

    def learn(self, report: pb.ShardReport, assign_by: str) -> None:
        """What a report says of domains."""
        self.owns = frozenset(_domains(report.domains.domains)) if report.HasField("domains") else None
        self.leaving = frozenset(_domains(report.domains.leaving))
        self.owns_everything = report.domains.everything
        self.listed = _listed(report.listed[:MOST_DOMAINS], assign_by) if assign_by else {}


def _domains(named: Iterable[pb.TopologyDomain]) -> Iterator[Domain]:
    """Those that can be: what is no label was never assigned."""
    return _labels((one.topology_key, one.topology_value) for one in named)


def _labels(pairs: Iterable[tuple[str, str]]) -> Iterator[Domain]:
    for key, value in pairs:
        try:
            yield Domain(check_label_key(key), check_label_value(value))
        except ValueError:
            continue


def _listed(holdings: Iterable[pb.DomainHoldings], assign_by: str) -> dict[Domain, DomainListing]:
    """The domains of a key. One that several providers list is one domain."""
    found: dict[Domain, DomainListing] = {}
    for one in holdings:
        if one.topology_key != assign_by:
            continue
        for domain in _labels([(one.topology_key, one.topology_value)]):
            machines = sum(each.count for each in one.machines if each.count > 0)
            bound = Counter({cluster: count for cluster, count in one.bound.items() if count > 0})
            if domain in found:
                machines, bound = machines + found[domain].machines, bound + Counter(found[domain].bound)
            found[domain] = DomainListing(machines, bound)
    return found

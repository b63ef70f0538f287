"""Which shard owns which topology domain, and what each must be told so that its own disk says the same."""

from collections.abc import Collection, Set
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Domain:
    """A topology domain, e.g. `topology.kubernetes.io/zone` = `zone-a`."""

    key: str
    value: str


@dataclass
class Ownership:
    """The assignments, and what was taken from shards that have not yet said that they gave it up.

    A domain that a shard reports and that the coordinators have no record of stays with the shard: coordinators that
    have lost their state must not take the fleet's machines away.
    """

    owners: dict[Domain, str] = field(default_factory=dict)
    given: dict[str, set[Domain]] = field(default_factory=dict)
    released: dict[str, set[Domain]] = field(default_factory=dict)
    withdrawn: set[Domain] = field(default_factory=set)
    """Taken from their shards by hand: only a hand gives them away again."""
    moved_unix_ns: dict[Domain, int] = field(default_factory=dict)
    """When the leader last moved a domain, or tried to."""
    shards: set[str] = field(default_factory=set)
    """All that are registered."""
    clusters: dict[str, str] = field(default_factory=dict)
    """The shard of each cluster."""

    def assign(self, domain: Domain, shard_id: str) -> None:
        self.owners[domain] = shard_id
        self.given.setdefault(shard_id, set()).add(domain)
        self.released.get(shard_id, set()).discard(domain)
        self.withdrawn.discard(domain)

    def unassign(self, domain: Domain) -> None:
        owner = self.owners.pop(domain, None)
        if owner is not None:
            self.withdrawn.add(domain)
            self.given[owner].discard(domain)
            self.released.setdefault(owner, set()).add(domain)

    def move(self, domain: Domain, shard_id: str, now_unix_ns: int) -> None:
        """Give a domain that its owner has given up already to another shard."""
        self.given[self.owners[domain]].discard(domain)
        self.assign(domain, shard_id)
        self.moved_unix_ns[domain] = now_unix_ns

    def remove_shard(self, shard_id: str) -> None:
        for domain in self.given.pop(shard_id, set()):
            del self.owners[domain]
            self.released.setdefault(shard_id, set()).add(domain)
        self.clusters = {cluster: shard for cluster, shard in self.clusters.items() if shard != shard_id}
        self.shards.discard(shard_id)

    def free(self, domain: Domain, gone: Collection[str] = ()) -> bool:
        """Whether a shard may be given it without a word of a person: nobody but the gone has it or must give it up."""
        return (
            domain not in self.owners
            and domain not in self.withdrawn
            and not any(domain in taken for shard_id, taken in self.released.items() if shard_id not in gone)
        )

    def unrecorded(self, held: Set[Domain]) -> list[Domain]:
        """What a shard has and nobody is recorded for, as after the coordinators have lost their state."""
        return sorted(domain for domain in held - self.owners.keys() if self.free(domain))

    def lacking(self, shard_id: str, held: Set[Domain]) -> list[Domain]:
        """What a shard with these domains must be given."""
        return sorted(self.given.get(shard_id, set()).difference(held))

    def excess(self, shard_id: str, held: Set[Domain]) -> list[Domain]:
        """What a shard with these domains must give up."""
        others = {domain for domain in held if self.owners.get(domain, shard_id) != shard_id}
        taken = self.released.get(shard_id, set()).intersection(held) - self.given.get(shard_id, set())
        return sorted(others | taken)

    def given_up(self, shard_id: str, held: Set[Domain]) -> set[Domain]:
        """What was taken from a shard and is not among its domains any more."""
        return self.released.get(shard_id, set()).difference(held)

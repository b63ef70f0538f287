"""Which shard owns which topology domain, and what each must be told so that its own disk says the same."""

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

    def assign(self, domain: Domain, shard_id: str) -> None:
        self.owners[domain] = shard_id
        self.given.setdefault(shard_id, set()).add(domain)
        self.released.get(shard_id, set()).discard(domain)

    def unassign(self, domain: Domain) -> None:
        owner = self.owners.pop(domain, None)
        if owner is not None:
            self.given[owner].discard(domain)
            self.released.setdefault(owner, set()).add(domain)

    def remove_shard(self, shard_id: str) -> None:
        for domain in self.given.pop(shard_id, set()):
            del self.owners[domain]
            self.released.setdefault(shard_id, set()).add(domain)

    def lacking(self, shard_id: str, held: set[Domain]) -> list[Domain]:
        """What a shard with these domains must be given."""
        return sorted(self.given.get(shard_id, set()) - held)

    def excess(self, shard_id: str, held: set[Domain]) -> list[Domain]:
        """What a shard with these domains must give up."""
        others = {domain for domain in held if self.owners.get(domain, shard_id) != shard_id}
        taken = held & self.released.get(shard_id, set()) - self.given.get(shard_id, set())
        return sorted(others | taken)

    def given_up(self, shard_id: str, held: set[Domain]) -> set[Domain]:
        """What was taken from a shard and is not among its domains any more."""
        return self.released.get(shard_id, set()) - held

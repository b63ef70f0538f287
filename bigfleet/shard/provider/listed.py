"""What the providers list by topology domain, also of machines that other shards own: the coordinators assign by it."""

from collections.abc import Callable

import structlog

from bigfleet.api.v1alpha1 import coordinator_pb2, provider_pb2
from bigfleet.core.machines import Machine
from bigfleet.shard.inventory.domaintally import DomainCounts, DomainTally, together
from bigfleet.shard.inventory.inventory import Inventory

# A report with more would be longer than it is useful: a domain is a rack at least.
MOST_DOMAINS = 10_000

log = structlog.get_logger()


class Listed:
    """Domains of the key that the coordinators assign by.

    Our own machines are counted in the inventory, as they change. Of the others nothing is remembered: a walk through
    everything counts them as it passes, and its counts replace the former ones at its end. Between two walks, a domain
    that appears counts each machine as often as there is news of it, and what changes elsewhere waits for the next
    walk.
    """

    def __init__(self, inventory: Inventory, count_anew: Callable[[], None]) -> None:
        self._inventory = inventory
        self._count_anew = count_anew
        self._key = ""
        self._walked: dict[str, DomainTally] = {}
        # (provider, domain) that appeared since the last walk; all their machines are counted, also later ones.
        self._fresh: set[tuple[str, str]] = set()
        self._cut = 0

    def by(self, key: str) -> None:
        """Count by this key from now on; empty: not at all."""
        if key == self._key:
            return
        self._key = key
        self._inventory.count_domains_by(key)
        self._walked = {provider: DomainTally(key) for provider in self._inventory.origins.providers} if key else {}
        self._fresh = set()
        if key:
            self._count_anew()

    def serves(self, domain: tuple[str, str]) -> str | None:
        """A cluster that one of our machines in a domain is bound to; None: there is none."""
        key, value = domain
        if key == self._key:
            found = (tally.cluster_in(value) for tally in self._inventory.domains.values())
            return next((cluster for cluster in found if cluster), None)
        machines = self._inventory.machines.values()
        return next((each.cluster for each in machines if each.cluster and each.attribute(key) == value), None)

    def begin(self) -> DomainTally:
        """The counts of a walk through everything, which begins."""
        return DomainTally(self._key)

    def end(self, provider: str, walk: DomainTally) -> None:
        """A walk through everything is over."""
        if self._key and walk.key == self._key:
            self._walked[provider] = walk
            self._fresh = {fresh for fresh in self._fresh if fresh[0] != provider}

    def passed(self, provider: str, machine: Machine) -> None:
        """News of a machine that is not ours."""
        value = machine.attribute(self._key) if self._key else None
        if value is None or (value in self._walked[provider] and (provider, value) not in self._fresh):
            return
        self._fresh.add((provider, value))
        self._walked[provider].count(machine)

    def to_wire(self) -> tuple[list[coordinator_pb2.DomainHoldings], int]:
        """For a report: the first domains, and how many more there are."""
        domains = {
            (value, provider): counts
            for provider, walked in self._walked.items()
            for value, counts in together(self._inventory.domains[provider], walked).items()
        }
        named = sorted(domains)[:MOST_DOMAINS]
        cut = len(domains) - len(named)
        if cut and cut != self._cut:
            log.warning("more domains than a report names", left_out=cut, named=len(named), key=self._key)
        self._cut = cut
        return [_holdings(provider, self._key, value, domains[value, provider]) for value, provider in named], cut


def _holdings(provider: str, key: str, value: str, counts: DomainCounts) -> coordinator_pb2.DomainHoldings:
    return coordinator_pb2.DomainHoldings(
        provider=provider,
        topology_key=key,
        topology_value=value,
        machines=[
            coordinator_pb2.MachineCount(
                instance_type=instance_type, state=provider_pb2.MachineState.Name(state), count=count
            )
            for (instance_type, state), count in sorted(counts.machines.items())
        ],
        bound=counts.bound,
    )

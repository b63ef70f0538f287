"""Which shard a domain goes to, decided from what the shards list. Pure: the same facts give the same answer."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from bigfleet.coordinator.ownership import Domain


@dataclass(frozen=True)
class DomainListing:
    """What a shard's providers list of a domain."""

    machines: int
    bound: Mapping[str, int] = field(default_factory=dict)
    """Machines that serve a cluster, by its id."""


# Shard → what it lists.
Listings = Mapping[str, Mapping[Domain, DomainListing]]


def share_out(
    free: Collection[Domain], listings: Listings, owners: Mapping[Domain, str], clusters: Mapping[str, str]
) -> dict[Domain, str]:
    """A shard for each free domain that one of the shards in `listings` lists.

    A domain with bound machines goes to the shard of most of their clusters, and waits while that one is not there. The
    others go to the shard with the fewest machines, the largest first; ties go by name.
    """
    loads = _loads(listings, owners)
    given: dict[Domain, str] = {}
    unbound: list[tuple[int, Domain]] = []
    for domain in sorted(free):
        listed = _together(domain, listings.values())
        if listed is None:
            continue
        if clusters.keys() & listed.bound.keys():
            chosen = _shard_of_most(domain, listed.bound, listings, clusters)
            if chosen is not None:
                given[domain] = chosen
                loads[chosen] += listed.machines
        else:
            unbound.append((-listed.machines, domain))
    for smaller, domain in sorted(unbound):
        chosen = min(
            (shard for shard in listings if domain in listings[shard]), key=lambda shard: (loads[shard], shard)
        )
        given[domain] = chosen
        loads[chosen] -= smaller
    return given


def first_share(
    newcomer: str, listings: Listings, owners: Mapping[Domain, str], resting: Collection[Domain]
) -> dict[Domain, str]:
    """Domains for a shard that has none, with their owners: taken from the most loaded, never more than evens it out.

    Only domains without bound machines, that the newcomer lists too and that do not rest.
    """
    loads = _loads(listings, owners)
    movable: dict[str, list[tuple[int, Domain]]] = {}
    for domain, owner in owners.items():
        listed = listings.get(owner, {}).get(domain)
        if owner == newcomer or listed is None or listed.bound or not listed.machines:
            continue
        if domain not in resting and domain in listings[newcomer]:
            movable.setdefault(owner, []).append((-listed.machines, domain))
    taken: dict[Domain, str] = {}
    for domains in movable.values():
        domains.sort()
    while movable:
        donor = min(movable, key=lambda shard: (-loads[shard], shard))
        gap = loads[donor] - loads[newcomer]
        fitting = next((one for one in movable[donor] if -2 * one[0] <= gap), None)
        if fitting is None:
            del movable[donor]
            continue
        movable[donor].remove(fitting)
        smaller, domain = fitting
        taken[domain] = donor
        loads[donor] += smaller
        loads[newcomer] -= smaller
        if not movable[donor]:
            del movable[donor]
    return taken


def _shard_of_most(
    domain: Domain, bound: Mapping[str, int], listings: Listings, clusters: Mapping[str, str]
) -> str | None:
    """The shard that most of the clusters with machines in a domain belong to; None if that one is not there."""
    votes = Counter(clusters[cluster] for cluster in bound if cluster in clusters)
    weights: Counter[str] = Counter()
    for cluster, machines in bound.items():
        weights[clusters.get(cluster, "")] += machines
    for shard in sorted(votes, key=lambda each: (-votes[each], -weights[each], each)):
        if shard not in listings:
            return None
        if domain in listings[shard]:
            return shard
    return None


def _loads(listings: Listings, owners: Mapping[Domain, str]) -> Counter[str]:
    """Machines that each shard owns, in its own word."""
    loads = Counter(dict.fromkeys(listings, 0))
    for domain, owner in owners.items():
        if listed := listings.get(owner, {}).get(domain):
            loads[owner] += listed.machines
    return loads


def _together(domain: Domain, listings: Iterable[Mapping[Domain, DomainListing]]) -> DomainListing | None:
    """A domain as all list it: nobody's word is older than the others', so the larger figure counts."""
    found = [each[domain] for each in listings if domain in each]
    if not found:
        return None
    bound = Counter[str]()
    for each in found:
        bound |= Counter(each.bound)
    return DomainListing(max(each.machines for each in found), bound)

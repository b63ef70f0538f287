"""Renders the provider's fleet file: the machines for the demand that the load-drivers will draw, then ends.

It runs in the provider's pod, before the provider, from the same load profile that the load-drivers read: demand and
seeds cannot drift apart, and no ConfigMap has to carry a hundred thousand machines.
"""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import structlog

from scaletest.cluster.mounted import read_mounted
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.model.demand.draw import Workload, draw_clusters
from scaletest.model.demand.seeding import Owner, fleet_document, free_machines, seed_share
from scaletest.model.demand.shard_shares import shares_of
from scaletest.model.documents.loadprofile import LoadProfile, Seeding

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FleetOptions:
    """What is read, and where the fleet file goes."""

    load_profile: Path
    """The load profile, YAML."""
    seeding: Path
    """Sizes of the tiers, YAML."""
    out: Path
    """The fleet file, JSON."""


async def serve(options: FleetOptions) -> None:
    document = render_fleet(read_mounted(options.load_profile, LoadProfile), read_mounted(options.seeding, Seeding))
    options.out.write_bytes(msgspec.json.encode(document))
    log.info("fleet file written", machines=sum(entry["count"] for entry in document["machines"]))


def render_fleet(load: LoadProfile, seeding: Seeding) -> dict[str, Any]:
    """The fleet file's content."""
    catalog, density, seed = seeding.catalog(load), seeding.density, seeding.machines

    shares = shares_of(
        draw_clusters(load.archetypes, load.target, load.seed, range(seeding.clusters)),
        clusters=seeding.clusters,
        shards=seeding.shards,
        density=density,
        configured_fraction=seed.configured_fraction,
        bursts=load.bursts,
        archetypes=catalog.by_name,
    )
    groups = (
        seed_share(catalog, share, free_machines(catalog, share.demand, seed, density), seed, density, owner_of)
        for share in shares
    )
    return fleet_document(chain.from_iterable(groups), density)


def owner_of(workload: Workload, is_gang: bool) -> Owner:
    """As the shard would have stamped machines that it acquired for this workload."""
    pods = pods_of(workload)
    profile = pods.profile if is_gang else pods.profile.without_same()
    return profile.fingerprint, pods.group if is_gang else ""

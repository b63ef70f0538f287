"""Acquisition: free machines for what credit left short, in order of precedence.

See docs/reference/engine.md#acquisition.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.core.requirements import NeedProfile
from bigfleet.engine.columns.blocks import Arrangement
from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.columns.growing import Flags, Ints, Longs
from bigfleet.engine.columns.terms import Terms
from bigfleet.engine.kernels import kernels
from bigfleet.engine.phases.credit import Credited, Credits, value_order


@dataclass(frozen=True, eq=False)
class Short:
    """The rows that credit left short, in order of precedence, and what became of them."""

    clusters: Ints
    # The row within its cluster's arrangement.
    rows: Ints
    arrangements: list[Arrangement]
    profiles: Ints
    priorities: Longs
    parked: Flags
    units: Longs
    missing: Longs
    credited: Longs
    domains: Ints
    satisfiable: Flags
    # Whether any machine at all is of use to the row.
    usable: Flags
    bootstraps: Ints
    provisions: Ints
    # Counts of a spread row's machines by value, −1 = a value that none of them has: from balance_of[row] on.
    balance_of: Longs
    balances: Longs
    terms: Terms
    # Machines that were taken: Bootstraps of the first row, then its Provisions, then the next row's.
    machines: Ints
    # How many of each pool were taken: [Idle or Speculative, kind].
    taken: Longs

    def __len__(self) -> int:
        return len(self.rows)

    def unmet(self) -> Flags:
        return np.asarray((self.missing > 0).any(axis=1), np.uint8)

    def hopeless(self, fleet: Fleet) -> Longs:
        """Gangs that are unsatisfied, acquired nothing, and have no domain that could ever do."""
        return np.flatnonzero(
            (fleet.profiles.same_keys[self.profiles] >= 0)
            & (self.unmet() > 0)
            & (self.bootstraps + self.provisions == 0)
            & (self.satisfiable == 0)
        )

    def gang(self, number: int) -> tuple[str, tuple[str, str]]:
        """(cluster, (fingerprint, group)): how parking knows a gang."""
        arrangement = self.arrangements[number]
        return arrangement.block.cluster, arrangement.gang(int(self.rows[number]))

    def profile(self, fleet: Fleet, number: int) -> NeedProfile:
        profile = fleet.profiles.known[int(self.profiles[number])]
        if profile is None:
            raise LookupError(f"short row {number} has no profile")
        return profile


def acquire(fleet: Fleet, credits: Credits) -> Short:
    """Let short rows take free machines; those that are met by what is being created for them need none."""
    short = _gather(fleet, credits)
    kinds, profiles, index, terms = fleet.kinds, fleet.profiles, fleet.index, short.terms
    if not len(short):
        return short
    creating = _creating_of(fleet, short)
    wanted = _lean_domains(fleet, credits, short, creating)
    if (creating >= 0).any():
        kernels().credit_creating(
            short.profiles, creating, short.units, short.missing, short.credited, index.kinds, index.starts,
            index.sizes, profiles.matches, kinds.allocatable_of, kinds.allocatable, kinds.attributes, terms.starts,
            terms.keys, terms.offsets, short.balance_of, short.balances,
        )  # fmt: skip
    out = np.empty(int(credits.free.sum()), np.int32)
    rank_starts, value_ranks = value_order(fleet)
    count = kernels().acquire(
        short.profiles, short.parked, short.units, short.missing, short.domains, short.usable, short.bootstraps,
        short.provisions, short.balance_of, short.balances, terms.starts, terms.keys, terms.skews, terms.offsets,
        terms.sizes, wanted, index.rows, index.starts, index.sizes, kinds.allocatable_of, kinds.allocatable,
        kinds.attributes, profiles.same_keys, profiles.buckets, kinds.costs, fleet.ids.labels, fleet.pools,
        profiles.kind_starts, profiles.kind_lists, kinds.machines, rank_starts, value_ranks, short.taken, out,
    )  # fmt: skip
    object.__setattr__(short, "machines", out[:count].copy())
    return short


def _gather(fleet: Fleet, credits: Credits) -> Short:
    clusters = sorted(credits.short)
    known: list[Credited] = [credits.by_cluster[cluster] for cluster in clusters]
    counts = [len(one.short) for one in known]
    owners = np.repeat(np.arange(len(known)), counts)
    width = fleet.dimensions.width

    def column(name: str, dtype: type, of: str = "credited") -> NDArray[Any]:
        parts = [getattr(one if of == "credited" else one.arrangement, name)[one.short] for one in known]
        return np.concatenate(parts) if parts else np.zeros(0, dtype)

    rows = np.concatenate([one.short for one in known]) if known else np.zeros(0, np.int32)
    priorities = column("priorities", np.int64, "arrangement")
    arrivals = column("arrivals", np.float64, "arrangement")
    numbers = np.array(clusters, np.int32)[owners] if known else np.zeros(0, np.int32)
    order = np.lexsort((fleet.clusters.ranks()[numbers], arrivals, -priorities))
    profiles = column("profiles", np.int32, "arrangement")[order]
    terms = credits.terms
    balance_of, balances = _balances(credits, terms, numbers[order], rows[order], profiles, fleet)
    return Short(
        clusters=numbers[order],
        rows=rows[order],
        arrangements=[known[owner].arrangement for owner in owners[order].tolist()],
        profiles=profiles,
        priorities=priorities[order],
        parked=column("parked", np.uint8)[order],
        units=column("units", np.int64, "arrangement")[order].reshape(-1, width),
        missing=column("missing", np.int64)[order].reshape(-1, width),
        credited=column("credited", np.int64)[order],
        domains=column("domains", np.int32)[order],
        satisfiable=column("satisfiable", np.uint8)[order],
        usable=np.zeros(len(order), np.uint8),
        bootstraps=np.zeros(len(order), np.int32),
        provisions=np.zeros(len(order), np.int32),
        balance_of=balance_of,
        balances=balances,
        terms=terms,
        machines=np.zeros(0, np.int32),
        taken=np.zeros_like(credits.free),
    )


def _balances(
    credits: Credits, terms: Terms, clusters: Ints, rows: Ints, profiles: Ints, fleet: Fleet
) -> tuple[Longs, Longs]:
    """Where each spread row's machines are already (ADR-3)."""
    balance_of = np.full(len(rows), -1, np.int64)
    parts: list[Longs] = []
    used = 0
    rooms = terms.rooms()
    spread = np.flatnonzero(np.diff(terms.starts)[profiles]) if len(rows) else np.zeros(0, np.int64)
    for number in spread.tolist():
        profile = int(profiles[number])
        balance = np.full(rooms[profile], -1, np.int64)
        kinds = credits.held_kinds(int(clusters[number]), int(rows[number]))
        for term in range(int(terms.starts[profile]), int(terms.starts[profile + 1])):
            values = fleet.kinds.attributes[terms.keys[term], kinds]
            counts = np.bincount(values[values >= 0], minlength=int(terms.sizes[term]))
            first = int(terms.offsets[term])
            part = balance[first : first + len(counts)]
            part[counts > 0] = counts[counts > 0]
        balance_of[number] = used
        used += len(balance)
        parts.append(balance)
    return balance_of, np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _lean_domains(fleet: Fleet, credits: Credits, short: Short, creating: Ints) -> Flags:
    """The domains for which rows that are met take a machine each: flags beside the balances (ADR-26).

    None while something is being created for the row: that may be what it lacks.
    """
    wanted = np.zeros(len(short.balances), np.uint8)
    met = np.flatnonzero(short.unmet() == 0)
    idle = met[(creating[met] < 0) | (fleet.index.sizes[creating[met]] == 0)]
    for number in idle.tolist():
        lean = credits.by_cluster[int(short.clusters[number])].lean
        _, terms, values = lean[lean[:, 0] == short.rows[number]].T
        first = short.terms.starts[short.profiles[number]]
        wanted[short.balance_of[number] + short.terms.offsets[first + terms] + values] = 1
    return wanted


def _creating_of(fleet: Fleet, short: Short) -> Ints:
    """The segment of what is being created for each plain row; gangs have had theirs."""
    segments = np.full(len(short), -1, np.int32)
    if fleet.creating:
        plain = np.flatnonzero(fleet.profiles.same_keys[short.profiles] < 0).tolist()
        for number in plain:
            group = int(short.arrangements[number].groups[short.rows[number]])
            segments[number] = fleet.creating.get((int(short.profiles[number]), group), -1)
    return segments

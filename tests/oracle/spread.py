"""Spread: a need's machines are taken evenly over the values of its topology keys (docs/reference/engine.md#spread)."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.requirements import NeedProfile, Spread, WhenUnsatisfiable
from tests.oracle.fill import Claims, Fill, total
from tests.oracle.snapshot import Snapshot, speculative_cost

# One value per spread term: machines of a cell are alike to the spread.
Cell = tuple[str, ...]


def binding_terms(profile: NeedProfile) -> Sequence[Spread]:
    """Hard spreads; a gang has none (docs/reference/engine.md#spread)."""
    if profile.same is not None:
        return ()
    return [term for term in profile.spread if term.when is WhenUnsatisfiable.DO_NOT_SCHEDULE]


def acquire_spread(fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """The cheapest machine among the domains that are not ahead, again and again, Idle first.

    See docs/reference/engine.md#spread.
    """
    balance = Balance(fill, snapshot)
    for machine in balance.in_turn(sorted(claims.free_pool(snapshot, fill), key=_rank(fill, balance))):
        claims.claim(machine, fill)
        if fill.met:
            return


def hold_domains(own: Sequence[Machine], fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """ADR-26: a spread need that is met keeps its own machines in domains that have less than they must."""
    for term in binding_terms(fill.need.profile):
        for machine in own:
            if machine not in claims and machine.attribute(term.topology_key) in lean_domains(term, fill, snapshot):
                claims.claim(machine, fill)


def cover_domains(fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """ADR-26: a spread need that is met by what is bound takes a machine for each domain that has less than it must.

    Not while something is being created for it: that may be what it lacks.
    """
    need = fill.need
    wanted = [lean_domains(term, fill, snapshot) for term in binding_terms(need.profile)]
    if not any(wanted) or snapshot.creating(need.profile, need.group):
        return
    balance = Balance(fill, snapshot)
    for machine in sorted(claims.free_pool(snapshot, fill), key=_rank(fill, balance)):
        cell = balance.cell(machine)
        if cell is not None and any(value in values for value, values in zip(cell, wanted, strict=True)):
            claims.claim(machine, fill)
            for value, values in zip(cell, wanted, strict=True):
                values.discard(value)


def lean_domains(term: Spread, fill: Fill, snapshot: Snapshot) -> set[str]:
    """ADR-26: where a need's cluster has machines of use to it, but it has less than the scheduler must put there.

    The emptiest of D domains has at least 1/D of what is left if all others have max_skew Pods more.
    """
    key, need = term.topology_key, fill.need
    domains = {m.attribute(key) for m in snapshot.bound(need.cluster) if m.id in fill.usable} - {None}
    others = max(1, term.max_skew) * (len(domains) - 1)
    lean = set()
    for domain in domains:
        held = total(machine for machine in fill.machines if machine.attribute(key) == domain)
        for name, asked in need.aggregate.items():
            least = asked - others * max(0, need.min_unit.get(name, 0))
            if domain is not None and held.get(name, 0) * len(domains) < least:
                lean.add(domain)
    return lean


def _rank(fill: Fill, balance: "Balance") -> Callable[[Machine], tuple[bool, float, Cell, str]]:
    bucket = fill.need.profile.interruption_bucket

    def rank(machine: Machine) -> tuple[bool, float, Cell, str]:
        speculative = machine.state is not MachineState.IDLE
        cost = speculative_cost(machine, bucket) if speculative else machine.price_per_hour
        return speculative, cost, balance.cell(machine) or (), machine.id

    return rank


class Balance:
    """How many of a need's machines each domain has, and where one more may go."""

    def __init__(self, fill: Fill, snapshot: Snapshot) -> None:
        """Every domain of the pool counts, the exhausted ones too (docs/reference/engine.md#spread).

        What the need holds counts from the start (ADR-3): a lost machine would else be replaced in the
        wrong domain, and its pod would never bind under DoNotSchedule.
        """
        self._terms = binding_terms(fill.need.profile)
        self._counts: list[Counter[str]] = [Counter() for _ in self._terms]
        self._see(snapshot.pool(fill.need.profile.interruption_bucket, fill.usable), weight=0)
        self._see(fill.machines, weight=1)

    def _see(self, machines: Iterable[Machine], weight: int) -> None:
        for machine in machines:
            for term, counts in zip(self._terms, self._counts, strict=True):
                value = machine.attribute(term.topology_key)
                if value is not None:
                    counts[value] += weight

    def in_turn(self, ranked: Sequence[Machine]) -> Iterator[Machine]:
        """Machines for the need, each counted: always the first in rank of those whose cell is not ahead
        (docs/reference/engine.md#spread).

        The scheduler would not use a machine that lacks one of the keys, so these are left out.
        """
        self._see(ranked, weight=0)
        queues: dict[Cell, deque[tuple[int, Machine]]] = {}
        for rank, machine in enumerate(ranked):
            cell = self.cell(machine)
            if cell is not None:
                queues.setdefault(cell, deque()).append((rank, machine))
        while heads := [(queue[0][0], cell) for cell, queue in queues.items() if queue and self._allows(cell)]:
            _, cell = min(heads)
            _, machine = queues[cell].popleft()
            self._see([machine], weight=1)
            yield machine

    def cell(self, machine: Machine) -> Cell | None:
        """The machine's value for every term (ADR-3: all hold at once); None if it lacks one."""
        values = [machine.attribute(term.topology_key) for term in self._terms]
        return None if None in values else tuple(value for value in values if value is not None)

    def _allows(self, cell: Cell) -> bool:
        """Whether no domain of the cell is ahead of the emptiest one by its skew (docs/reference/engine.md#spread)."""
        return all(
            counts[value] <= min(counts.values()) + max(1, term.max_skew) - 1
            for term, counts, value in zip(self._terms, self._counts, cell, strict=True)
        )

"""Spread: a need's machines are taken evenly over the values of its topology keys (spec/engine.md §3.9, ADR 3)."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.requirements import Profile, Spread, WhenUnsatisfiable
from tests.oracle.fill import Claims, Fill
from tests.oracle.snapshot import Snapshot, speculative_cost

# One value per spread term: machines of a cell are alike to the spread.
Cell = tuple[str, ...]


def binding_terms(profile: Profile) -> Sequence[Spread]:
    """§3.9 "DoNotSchedule spread (Same wins if both)"."""
    if profile.same is not None:
        return ()
    return [term for term in profile.spread if term.when is WhenUnsatisfiable.DO_NOT_SCHEDULE]


def acquire_spread(fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """§3.9 "repeatedly take the cheapest head among domains …, tie by value", Idle first."""
    balance = Balance(fill, snapshot)
    for machine in balance.in_turn(sorted(claims.free_pool(snapshot, fill), key=_rank(fill, balance))):
        claims.claim(machine, fill)
        if fill.met:
            return


def hold_domains(own: Sequence[Machine], fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """ADR 26: a spread need that is met keeps one of its own machines in each domain in which it has none else."""
    for term in binding_terms(fill.need.profile):
        for machine in own:
            if machine not in claims and machine.attribute(term.topology_key) in _empty_domains(term, fill, snapshot):
                claims.claim(machine, fill)


def cover_domains(fill: Fill, snapshot: Snapshot, claims: Claims) -> None:
    """ADR 26: a spread need that is met by what is bound takes a machine for each domain in which it has none.

    Not while something is being created for it: that may be what it lacks.
    """
    need = fill.need
    terms = binding_terms(need.profile)
    wanted = [_empty_domains(term, fill, snapshot) for term in terms]
    if not any(wanted) or snapshot.creating(need.profile, need.group):
        return
    balance = Balance(fill, snapshot)
    ranked = sorted(claims.free_pool(snapshot, fill), key=_rank(fill, balance))

    def helps(cell: Cell) -> bool:
        return any(value in values for value, values in zip(cell, wanted, strict=True))

    for machine in balance.in_turn(ranked, helps):
        claims.claim(machine, fill)
        wanted[:] = [_empty_domains(term, fill, snapshot) for term in terms]


def _empty_domains(term: Spread, fill: Fill, snapshot: Snapshot) -> set[str]:
    """ADR 26: where its cluster has machines of use to a need but it has none, as long as it has Pods for more."""
    if len(fill.machines) >= fill.need.least_pods:
        return set()
    there = {m.attribute(term.topology_key) for m in snapshot.bound(fill.need.cluster) if m.id in fill.usable}
    held = {machine.attribute(term.topology_key) for machine in fill.machines}
    return {value for value in there - held if value is not None}


def _rank(fill: Fill, balance: "Balance") -> Callable[[Machine], tuple[bool, float, Cell, str]]:
    bucket = fill.need.profile.interruption_bucket

    def rank(machine: Machine) -> tuple[bool, float, Cell, str]:
        speculative = machine.state is not MachineState.IDLE
        cost = speculative_cost(machine, bucket) if speculative else machine.price_per_hour
        return speculative, cost, balance.cell(machine) or (), machine.id

    return rank


class Balance:
    """How many of a need's machines each domain has, and where one more may go (§3.9)."""

    def __init__(self, fill: Fill, snapshot: Snapshot) -> None:
        """§3.9 "min counts every domain seen in the pool (incl. exhausted ones)".

        What the need holds counts from the start (ADR 3; §11 item 10): a lost machine would else be replaced in the
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

    def in_turn(
        self, ranked: Sequence[Machine], helps: Callable[[Cell], bool] = lambda _cell: True
    ) -> Iterator[Machine]:
        """Machines for the need, each counted: the first in rank of those whose cell helps and is not ahead (§3.9).

        The scheduler would not use a machine that lacks one of the keys, so these are left out.
        """
        self._see(ranked, weight=0)
        queues: dict[Cell, deque[tuple[int, Machine]]] = {}
        for rank, machine in enumerate(ranked):
            cell = self.cell(machine)
            if cell is not None:
                queues.setdefault(cell, deque()).append((rank, machine))
        while heads := [
            (queue[0][0], cell) for cell, queue in queues.items() if queue and helps(cell) and self._allows(cell)
        ]:
            _, cell = min(heads)
            _, machine = queues[cell].popleft()
            self._see([machine], weight=1)
            yield machine

    def cell(self, machine: Machine) -> Cell | None:
        """The machine's value for every term (ADR 3: all hold at once); None if it lacks one."""
        values = [machine.attribute(term.topology_key) for term in self._terms]
        return None if None in values else tuple(value for value in values if value is not None)

    def _allows(self, cell: Cell) -> bool:
        """§3.9 "domains whose count ≤ min+skew−1 (skew ≥1)", for every term."""
        return all(
            counts[value] <= min(counts.values()) + max(1, term.max_skew) - 1
            for term, counts, value in zip(self._terms, self._counts, cell, strict=True)
        )

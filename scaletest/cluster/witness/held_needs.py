"""What a shard's engine holds of one cluster, row by row and field by field, against what the draw says."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import structlog

from scaletest.cluster.witness.amounts import Amounts
from scaletest.cluster.witness.drawn_needs import (
    PROFILE_FIELDS,
    DrawnProfile,
    ExpectedNeed,
    HeldNeed,
    checksum,
    expected_needs,
)
from scaletest.cluster.witness.living import Living
from scaletest.model.demand.draw import Workload

GROUP, MIN_UNIT, AMOUNTS, MACHINES = "group", "min_unit", "amounts", "machines"
MISSING, UNASKED = "missing", "unasked"
NEED_FIELDS = (*PROFILE_FIELDS, GROUP, MIN_UNIT, AMOUNTS, MACHINES, MISSING, UNASKED)

# So often in a row a difference must be seen: a roll-up can catch the moment in which Pods are replaced.
LOOKS = 3
# A look that is older says nothing about now.
_FRESH_SECONDS = 75.0
# While a machine's Pods are replaced, their requests and their successors' may both be rolled up.
_DOUBLED_PODS, _DOUBLED_SHARE = 2, 0.1
# A row and a need that differ in more of their fields have nothing to do with each other.
_AKIN = 3
# Rows for which more than a glance is spent, and for which their next of kin is looked for: if all of them are wrong,
# some tell as much as all.
_SEARCHES, _PAIRED = 200, 50
# Differences that are shown in the log; beyond that they are only counted.
_SHOWN = 10

# Amounts that can be looked up.
Fixed = frozenset[tuple[str, int]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Finding:
    """A field that is wrong in one row; or a row that is missing, or that no workload asks for."""

    field: str
    profile: DrawnProfile
    group: str


@dataclass(frozen=True, eq=False)
class Bounds:
    """What a need may have been within the last three roll-up intervals, and still be held so."""

    need: ExpectedNeed
    # Whether there were Pods of it all the time: then there must be a row.
    is_due: bool
    lowest: Amounts
    highest: Amounts
    least_unit: Amounts
    largest_unit: Amounts
    # What its living Pods ask for now.
    aggregate: Amounts

    def takes(self, aggregate: Amounts) -> bool:
        return all(
            self.lowest.get(name, 0) - self._slack(name) <= aggregate.get(name, 0)
            and aggregate.get(name, 0) <= self.highest.get(name, 0) + self._slack(name)
            for name in aggregate.keys() | self.highest.keys()
        )

    def takes_unit(self, unit: Amounts) -> bool:
        return all(
            self.least_unit.get(name, 0) <= unit.get(name, 0) <= self.largest_unit.get(name, 0)
            for name in unit.keys() | self.largest_unit.keys()
        )

    def _slack(self, name: str) -> float:
        return max(_DOUBLED_PODS * self.largest_unit.get(name, 0), _DOUBLED_SHARE * self.highest.get(name, 0))


def bounds_of(need: ExpectedNeed, living: Living) -> Bounds | None:
    """None if no Pod of it has lived lately."""
    marks = [(living.lately[name], amounts) for name, amounts in need.members]
    lately = [(one.lowest, one.highest, one.value, amounts) for one, amounts in marks if one.highest]
    if not lately:
        return None
    always = [amounts for lowest, _, _, amounts in lately if lowest]
    return Bounds(
        need,
        is_due=bool(always),
        lowest=_sum((lowest, amounts) for lowest, _, _, amounts in lately),
        highest=_sum((highest, amounts) for _, highest, _, amounts in lately),
        least_unit=_largest(always),
        largest_unit=_largest(amounts for *_, amounts in lately),
        aggregate=_sum((value, amounts) for _, _, value, amounts in lately),
    )


def findings(expected: Iterable[Bounds], held: Iterable[HeldNeed], *, all_told: bool) -> Iterator[Finding]:
    """Everything that is wrong. A row that is not there is `missing` only if the shard has told all of its rows."""
    held = list(held)
    yield from (Finding(MACHINES, row.profile, row.group) for row in held if row.contradicts_itself)
    match = _Match(expected)
    # First what is as it should be now, so that few gangs are left among which those are looked for that change.
    unsettled = [row for row in held if not match.take(row)]
    strangers = [row for row in unsettled if not match.take(row, lately=True)]
    absent = match.absent()
    for number, row in enumerate(strangers):
        kin = _next_of_kin(row, absent) if number < _PAIRED else None
        if kin is None:
            yield Finding(UNASKED, row.profile, row.group)
            continue
        absent.remove(kin)
        for field in _differences(row, kin):
            yield Finding(field, kin.need.profile, kin.need.group)
    if all_told:
        yield from (Finding(MISSING, one.need.profile, one.need.group) for one in absent if one.is_due)
    for bounds, row in match.plain:
        if not bounds.takes_unit(row.min_unit):
            yield Finding(MIN_UNIT, row.profile, "")
        if not bounds.takes(row.aggregate):
            yield Finding(AMOUNTS, row.profile, "")


class _Match:
    """Finds for each row the need that it is. Which gang is which is not told: any of the profile and size will do."""

    def __init__(self, expected: Iterable[Bounds]) -> None:
        self.plain: list[tuple[Bounds, HeldNeed]] = []
        self._plain: dict[DrawnProfile, Bounds] = {}
        # By profile, and for gangs that fit on one machine by that of the machine; and by what they ask for now.
        self._gangs: dict[DrawnProfile, list[Bounds]] = {}
        self._gangs_now: dict[tuple[DrawnProfile, Fixed], list[Bounds]] = {}
        self._taken: set[Bounds] = set()
        self._searches = 0
        for bounds in expected:
            profile = bounds.need.profile
            if not profile.is_gang:
                self._plain[profile] = bounds
                continue
            for name in (profile, profile.folded):
                self._gangs.setdefault(name, []).append(bounds)
                self._gangs_now.setdefault((name, _fixed(bounds.aggregate)), []).append(bounds)

    def take(self, row: HeldNeed, *, lately: bool = False) -> bool:
        """Whether the row is one that there must be now, or, of gangs, may have been lately."""
        if row.group or row.profile.is_gang:
            return bool(row.group) and self._take_gangs(row, row.aggregate, 1, lately)
        bounds = self._plain.get(row.profile)
        if bounds and (bounds.takes_unit(row.min_unit) or row.profile not in self._gangs):
            del self._plain[row.profile]
            self.plain.append((bounds, row))
            return True
        count = _times(row.aggregate, row.min_unit)
        return bool(count) and self._take_gangs(row, row.min_unit, count, lately)

    def absent(self) -> list[Bounds]:
        """The needs that are no row's."""
        gangs = (one for name, gangs in self._gangs.items() if name.is_gang for one in gangs)
        return [*self._plain.values(), *(one for one in gangs if one not in self._taken)]

    def _take_gangs(self, row: HeldNeed, aggregate: Amounts, count: int, lately: bool) -> bool:
        """Cross so many gangs off that are as large as this."""
        key = (row.profile, _fixed(aggregate))
        found = list(islice(self._free(self._gangs_now.get(key, ()), row), count))
        if lately and len(found) < count and self._searches < _SEARCHES:
            self._searches += 1
            others = self._free(self._gangs.get(row.profile, ()), row)
            found += islice((one for one in others if one not in found and one.takes(aggregate)), count - len(found))
        if len(found) < count:
            return False
        self._taken.update(found)
        return True

    def _free(self, gangs: Iterable[Bounds], row: HeldNeed) -> Iterator[Bounds]:
        return (one for one in gangs if one not in self._taken and (not row.group or one.takes_unit(row.min_unit)))


def _next_of_kin(row: HeldNeed, absent: Sequence[Bounds]) -> Bounds | None:
    """The need that a wrong row was most likely meant to be: the fewest fields differ, then it is as large."""
    kin = min(
        absent,
        key=lambda one: (len(_differences(row, one)), not one.takes(row.aggregate)),
        default=None,
    )
    return kin if kin and len(_differences(row, kin)) <= _AKIN else None


def _differences(row: HeldNeed, bounds: Bounds) -> tuple[str, ...]:
    """The fields in which a row that matches no need differs from one: a gang of another size is another group."""
    need = bounds.need
    if need.group and not row.group and not row.profile.is_gang:
        # Perhaps it fits on one machine.
        return row.profile.differences(need.profile.folded) or (GROUP,)
    fields = row.profile.differences(need.profile)
    if bool(row.group) != bool(need.group):
        fields = (*fields, GROUP)
    if not bounds.takes_unit(row.min_unit):
        fields = (*fields, MIN_UNIT)
    return fields or (GROUP,)


def _times(aggregate: Amounts, unit: Amounts) -> int:
    """How often the unit is in the aggregate; 0 if that is no whole number."""
    if not unit or aggregate.keys() != unit.keys() or not all(unit.values()):
        return 0
    (count, *others) = {aggregate[name] / unit[name] for name in unit}
    return int(count) if not others and count.is_integer() else 0


def _fixed(amounts: Amounts) -> Fixed:
    return frozenset(amounts.items())


def _sum(parts: Iterable[tuple[float, Amounts]]) -> Amounts:
    total: Counter[str] = Counter()
    for pods, amounts in parts:
        for name, milli in amounts.items():
            total[name] += round(pods) * milli
    return dict(total)


def _largest(vectors: Iterable[Amounts]) -> Amounts:
    largest: Amounts = {}
    for amounts in vectors:
        for name, milli in amounts.items():
            largest[name] = max(milli, largest.get(name, 0))
    return largest


class HeldNeeds:
    """Looks at a shard's rows again and again; what was wrong in several looks in a row is counted."""

    def __init__(self, workloads: Mapping[str, Workload], living: Living, clock: Callable[[], float]) -> None:
        self._expected = expected_needs(workloads)
        self._living = living
        self._clock = clock
        # Finding → looks in a row that had it.
        self._looks: dict[Finding, int] = {}
        self._looked: float | None = None
        self._shown = 0

    @property
    def in_doubt(self) -> bool:
        """Whether the last look had findings."""
        return bool(self._looks)

    @property
    def is_fresh(self) -> bool:
        return self._looked is not None and self._clock() - self._looked <= _FRESH_SECONDS

    def look(self, rows: Iterable[HeldNeed], *, all_told: bool) -> None:
        expected = [bounds for need in self._expected if (bounds := bounds_of(need, self._living))]
        found = set(findings(expected, rows, all_told=all_told))
        self._looks = {one: self._looks.get(one, 0) + 1 for one in found}
        self._looked = self._clock()
        for finding, looks in self._looks.items():
            if looks == LOOKS and self._shown < _SHOWN:
                self._shown += 1
                asked = finding.profile.fingerprint
                log.warning("the engine holds a need wrongly", field=finding.field, need=asked, group=finding.group)

    def wrong(self) -> dict[str, int]:
        """Field → rows in which it is wrong, and has been for so many looks."""
        wrong = Counter(finding.field for finding, looks in self._looks.items() if looks >= LOOKS)
        return {field: wrong[field] for field in NEED_FIELDS}

    def checksum(self) -> int:
        """Of the rows that the Pods that live now should lead to."""
        living = self._living.of_workload
        rows = [(need, [amounts for name, amounts in need.members if living[name] > 0]) for need in self._expected]
        return checksum((need, _largest(members)) for need, members in rows if members)

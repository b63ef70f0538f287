"""One cluster's needs in columns, and how they are arranged once it is known which gangs fold.

See docs/reference/engine.md#folding.
"""

from array import array
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bigfleet.core.needs import Need
from bigfleet.core.vectors import ReadVector, Vector
from bigfleet.engine.columns.dimensions import SATURATED, Dimensions, rescaled
from bigfleet.engine.columns.growing import Floats, Ints, Longs
from bigfleet.engine.columns.profiles import Profiles
from bigfleet.engine.columns.texts import Texts

# The number of the empty group.
NO_GROUP = 0


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The needs of a cluster after folding, in order of precedence. Never changed once made."""

    block: "Block"
    # Which of the block's needs: below block.raw one as it was sent, from there on a folded one.
    which: Ints
    profiles: Ints
    groups: Ints
    # What a row asks for in total, and what a machine must offer to be of use to it.
    wants: Longs
    units: Longs
    # The largest Pod of a row, dimension by dimension.
    pods: Longs
    priorities: Longs
    arrivals: Floats
    # The rows that are gangs.
    gangs: Ints
    # The distinct (fingerprint, group) keys of the rows, sorted, and which of them each row has.
    own_keys: Longs
    own_of: Ints
    # How many gangs each folded need stands for.
    folded: Longs

    def __len__(self) -> int:
        return len(self.which)

    def gang(self, row: int) -> tuple[str, str]:
        """(fingerprint, group)."""
        return self.block.fingerprint(self, row), self.block.group(self, row)

    def amended(self, block: "Block", places: Longs, wants: Longs, pods: Longs) -> "Arrangement":
        """The same rows in the same order, but in these places they ask for these amounts."""
        every_want, every_unit, every_pod = self.wants.copy(), self.units.copy(), self.pods.copy()
        every_want[places], every_unit[places], every_pod[places] = wants, _of_use(pods, wants), pods
        return replace(self, block=block, wants=every_want, units=every_unit, pods=every_pod)


@dataclass(frozen=True, eq=False)
class Sent:
    """The needs of a cluster as they were sent, whatever they fold to: one row each."""

    priorities: Longs
    # Needs whose Pods must be held together; and, of the others, which a DoNotSchedule spread binds.
    gangs: NDArray[np.bool_]
    spread: NDArray[np.bool_]
    # Milli-units, a column for each of the names. Floats: sums of them may be more than an int64 holds.
    amounts: Floats
    names: Sequence[str]


class Block:
    """A roll-up in columns: as it was sent, and the folded needs that its gangs may become."""

    def __init__(
        self, cluster: str, needs: Sequence[Need], dimensions: Dimensions, profiles: Profiles, groups: Texts
    ) -> None:
        self.cluster = cluster
        self.raw = len(needs)
        self._dimensions = dimensions
        # The units that the columns are in: a block that was replaced keeps its own, for views that are read later.
        self._units = list(dimensions.units)
        self._profiles = profiles
        self._groups = groups
        count, width = len(needs), dimensions.width
        self._aggregates: Longs = np.zeros((count, width), np.int64)
        self._min_units: Longs = np.zeros((count, width), np.int64)
        # Needs whose vectors have entries that ask for nothing: these can't be made again from the columns.
        self._odd: dict[int, Need] = {}
        self._profile_of: Ints = np.zeros(count, np.int32)
        self._group_of: Ints = np.zeros(count, np.int32)
        self._arrivals: Floats = np.zeros(count)
        if needs:
            self._aggregates, self._min_units, odd = self._written(needs)
            self._odd = {index: needs[index] for index in odd}
            self._profile_of[:] = [profiles.number(need.profile.fingerprint) for need in needs]
            self._group_of[:] = [groups.hold(need.group) for need in needs]
            self._arrivals[:] = [need.arrival for need in needs]
        # Where the groups' texts are, so that they can be read even after a later roll-up has dropped them.
        self._arena = groups.arena
        self._offsets = array("I", (groups.offsets[group] for group in self._group_of.tolist()))
        self._lengths = array("I", (groups.lengths[group] for group in self._group_of.tolist()))
        self._classify()

    def _written(self, needs: Sequence[Need]) -> tuple[Longs, Longs, list[int]]:
        """Aggregates, min_units, which needs are odd. Rows often share their vectors: each is written once."""
        numbers: dict[int, int] = {}
        vectors: list[Vector] = []
        which: list[int] = []
        for need in needs:
            for vector in (need.aggregate, need.min_unit):
                number = numbers.setdefault(id(vector), len(vectors))
                if number == len(vectors):
                    vectors.append(vector)
                which.append(number)
        aggregates, min_units = np.array(which[::2], np.int64), np.array(which[1::2], np.int64)
        written: Longs = np.zeros((len(vectors), self._dimensions.width), np.int64)
        for number, vector in enumerate(vectors):
            self._dimensions.write(vector, written[number])
        np.maximum(written, 0, out=written)
        odd = np.array([not _plain(vector) for vector in vectors], np.bool_)
        return written[aggregates], written[min_units], np.flatnonzero(odd[aggregates] | odd[min_units]).tolist()

    def amended(self, needs: Sequence[Need], rows: Collection[int]) -> "Block | None":
        """The block in the place of this one if only plain needs in these rows ask for other amounts; None otherwise.

        Amounts change neither the order nor how gangs fold. This block is not to be released then.
        """
        if len(needs) != self.raw or not all(self._differs_in_amounts_only(row, needs[row]) for row in rows):
            return None
        where = np.fromiter(rows, np.int64, len(rows))
        news = [needs[row] for row in rows]
        aggregates, min_units, odd = self._written(news)
        block = copy(self)
        block._aggregates, block._min_units = self._aggregates.copy(), self._min_units.copy()
        block._aggregates[where], block._min_units[where] = aggregates, min_units
        block._odd = {row: need for row, need in self._odd.items() if row not in rows}
        block._odd.update((int(where[index]), news[index]) for index in odd)
        block._arranged = {}
        key = self._folds.tobytes()
        if key in self._arranged:
            arrangement = self._arranged[key]
            amended: NDArray[np.bool_] = np.zeros(self.raw + len(self._members), np.bool_)
            amended[where] = True
            places = np.flatnonzero(amended[arrangement.which])
            which = arrangement.which[places]
            wants, pods = block._aggregates[which], block._min_units[which]
            block._arranged[key] = arrangement.amended(block, places, wants, pods)
        return block

    def _differs_in_amounts_only(self, row: int, need: Need) -> bool:
        return (
            self._class_of[row] < 0
            and need.arrival == self._arrivals[row]
            and need.profile.fingerprint == self._profiles.fingerprints[self._profile_of[row]]
            and need.group == self._groups.text(self._group_of[row])
        )

    def _classify(self) -> None:
        """Gangs that ask for the same are of one class; classes that fold to the same need share it."""
        self._class_of: Ints = np.full(self.raw, -1, np.int32)
        classes: dict[tuple[int, bytes], int] = {}
        firsts: list[int] = []
        same_keys = self._profiles.same_keys
        for index in np.flatnonzero(same_keys[self._profile_of] >= 0).tolist():
            key = int(self._profile_of[index]), self._aggregates[index].tobytes()
            number = classes.setdefault(key, len(firsts))
            if number == len(firsts):
                firsts.append(index)
            self._class_of[index] = number
        first_of = np.array(firsts, np.int64)
        self.class_profiles: Ints = self._profile_of[first_of] if firsts else np.zeros(0, np.int32)
        self.class_values: Longs = self._aggregates[first_of] if firsts else self._aggregates[:0]
        self.class_plains: Ints = np.array([self._profiles.plain[p] for p in self.class_profiles.tolist()], np.int32)
        self._class_counts: Longs = np.bincount(self._class_of[self._class_of >= 0], minlength=len(firsts))
        self._class_arrivals: Floats = np.full(len(firsts), np.inf)
        gangs = np.flatnonzero(self._class_of >= 0)
        np.minimum.at(self._class_arrivals, self._class_of[gangs], self._arrivals[gangs])
        self._fold_classes()
        # The last verdict.
        self._folds: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._arranged: dict[bytes, Arrangement] = {}

    def _fold_classes(self) -> None:
        """Number the folded needs in the order of fingerprint and aggregate."""
        folded: dict[tuple[str, tuple[tuple[str, int], ...]], list[int]] = {}
        for number, (plain, value) in enumerate(zip(self.class_plains.tolist(), self.class_values, strict=True)):
            key = self._profiles.fingerprints[plain], tuple(sorted(self._read(value).items()))
            folded.setdefault(key, []).append(number)
        self._members = [folded[key] for key in sorted(folded)]
        self._folded_of: Ints = np.zeros(len(self.class_plains), np.int32)
        for number, members in enumerate(self._members):
            self._folded_of[members] = number

    def sent(self) -> Sent:
        profiles, units = self._profiles, np.array(self._units, np.float64)
        return Sent(
            profiles.priorities[self._profile_of],
            (self._group_of != NO_GROUP) | (profiles.same_keys[self._profile_of] >= 0),
            np.array([bool(profiles.terms[profile]) for profile in self._profile_of.tolist()], np.bool_),
            self._aggregates[:, : len(units)] * units,
            self._dimensions.names[: len(units)],
        )

    def rescale(self, width: int, factors: list[int]) -> None:
        """The units of the vectors changed."""
        self._units = list(self._dimensions.units)
        self._aggregates = rescaled(self._aggregates, width, factors)
        self._min_units = rescaled(self._min_units, width, factors)
        self._classify()

    def release(self, groups: Texts) -> None:
        for group in self._group_of.tolist():
            groups.drop(group)

    def expect(self, before: "Block") -> None:
        """Arrange the needs now as they will be if gangs go on folding as they did, to save the next cycle the time."""
        known = dict(zip(before._class_keys(), before._folds.tolist(), strict=False))
        self.arranged(np.array([known.get(key, True) for key in self._class_keys()], np.bool_))

    def _class_keys(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.class_profiles.tolist(), map(bytes, self.class_values), strict=True)

    def arranged(self, folds: NDArray[np.bool_]) -> Arrangement:
        """The needs when these classes fold: O(rows log rows), once for each verdict."""
        self._folds = folds
        key = folds.tobytes()
        arrangement = self._arranged.get(key)
        if arrangement is None:
            if len(self._arranged) >= 4:
                self._arranged.clear()
            arrangement = self._arranged[key] = self._arrange(folds)
        return arrangement

    def _arrange(self, folds: NDArray[np.bool_]) -> Arrangement:
        passes = (self._class_of < 0) | ~np.append(folds, False)[self._class_of]
        raw = np.flatnonzero(passes)
        counts: Longs = np.zeros(len(self._members), np.int64)
        arrivals = np.full(len(self._members), np.inf)
        np.add.at(counts, self._folded_of[folds], self._class_counts[folds])
        np.minimum.at(arrivals, self._folded_of[folds], self._class_arrivals[folds])
        folded = np.flatnonzero(counts)
        examples = [self._members[number][0] for number in folded.tolist()]
        values, counts = self.class_values[examples], counts[folded]
        times = counts[:, None]
        totals = np.where(values > SATURATED // times, SATURATED, np.minimum(values, SATURATED // times) * times)

        profiles = np.concatenate([self._profile_of[raw], self.class_plains[examples]])
        groups = np.concatenate([self._group_of[raw], np.full(len(folded), NO_GROUP, np.int32)])
        wants = np.concatenate([self._aggregates[raw], totals])
        units = np.concatenate([self._min_units[raw], values])
        arrived = np.concatenate([self._arrivals[raw], arrivals[folded]])
        which = np.concatenate([raw, folded + self.raw]).astype(np.int32)
        priorities = self._profiles.priorities[profiles]
        order = np.lexsort((which, self._group_ranks(groups), self._profile_ranks(profiles), arrived, -priorities))
        pods = np.ascontiguousarray(units[order])
        units = _of_use(units, wants)
        profiles, groups = profiles[order].astype(np.int32), groups[order].astype(np.int32)
        own_keys, own_of = np.unique(profiles.astype(np.int64) << 32 | groups, return_inverse=True)
        return Arrangement(
            self,
            which[order],
            profiles,
            groups,
            np.ascontiguousarray(wants[order]),
            np.ascontiguousarray(units[order]),
            pods,
            priorities[order],
            arrived[order],
            np.flatnonzero(self._profiles.same_keys[profiles] >= 0).astype(np.int32),
            own_keys,
            own_of.astype(np.int32),
            np.concatenate([np.zeros(len(raw), np.int64), counts])[order],
        )

    def _group_ranks(self, groups: Ints) -> NDArray[np.int64]:
        distinct, which = np.unique(groups, return_inverse=True)
        return _ranks([self._groups.text(group) for group in distinct.tolist()])[which]

    def _profile_ranks(self, profiles: Ints) -> NDArray[np.int64]:
        distinct, which = np.unique(profiles, return_inverse=True)
        return _ranks([self._profiles.fingerprints[profile] for profile in distinct.tolist()])[which]

    def fingerprint(self, arrangement: Arrangement, row: int) -> str:
        return self._profiles.fingerprints[int(arrangement.profiles[row])]

    def group(self, arrangement: Arrangement, row: int) -> str:
        index = int(arrangement.which[row])
        if index >= self.raw:
            return ""
        start = self._offsets[index]
        return self._arena[start : start + self._lengths[index]].decode("utf-8", "surrogatepass")

    def _read(self, row: Longs) -> Vector:
        """The dimensions above zero, in milli-units."""
        amounts = zip(self._dimensions.names, self._units, row.tolist(), strict=False)
        return {name: amount * unit for name, unit, amount in amounts if amount > 0}

    def need(self, arrangement: Arrangement, row: int) -> Need:
        """The need of a row, made on demand."""
        index = int(arrangement.which[row])
        if index in self._odd:
            return self._odd[index]
        profile = self._profiles.known[int(arrangement.profiles[row])]
        if profile is None:
            raise LookupError(f"row {row} has no profile")
        if index < self.raw:
            aggregate, unit = self._aggregates[index], self._min_units[index]
            group, arrival = self.group(arrangement, row), float(self._arrivals[index])
            return Need(self.cluster, profile, self._read(aggregate), self._read(unit), group, arrival)
        one = self._read(self.class_values[self._members[index - self.raw][0]])
        count = int(arrangement.folded[row])
        total = {name: amount * count for name, amount in one.items()}
        return Need(self.cluster, profile, total, one, "", float(arrangement.arrivals[row]))


def _of_use(units: Longs, wants: Longs) -> Longs:
    """What a machine must offer: the largest Pod, and something of all that is wanted."""
    return np.where(units > 0, units, wants > 0).astype(np.int64)


def _plain(vector: ReadVector) -> bool:
    """Whether every entry asks for something, and no more than can be counted."""
    return all(0 < amount < SATURATED for amount in vector.values())


def _ranks(texts: list[str]) -> NDArray[np.int64]:
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks

"""Profiles by fingerprint: which kinds match each, and what the phases ask of it."""

import numpy as np
from numpy.typing import NDArray

from bigfleet.core.requirements import NeedProfile, Requirement, WhenUnsatisfiable
from bigfleet.engine.columns.growing import Flags, Ints, Longs, grown
from bigfleet.engine.columns.kinds import Kinds


class Profiles:
    """Fingerprint → number. Fingerprints of assignments are interned too, whether or not a need has them."""

    def __init__(self, kinds: Kinds) -> None:
        self.fingerprints: list[str] = []
        self.known: list[NeedProfile | None] = []
        # The profile without Same; its own number if it has none. −1 until the profile is known.
        self.plain: list[int] = []
        # (key, skew) of each term that limits where machines may go.
        self.terms: list[tuple[tuple[int, int], ...]] = []
        self.priorities: Longs = np.zeros(16, np.int64)
        self.buckets: Ints = np.full(16, -1, np.int32)
        # The key that holds a gang together, −1 = no gang.
        self.same_keys: Ints = np.full(16, -1, np.int32)
        # [profile, kind] → 1 if every requirement is met.
        self.matches: Flags = np.zeros((16, 64), np.uint8)
        # The matching kinds of profile p are kind_lists[kind_starts[p]:kind_starts[p + 1]].
        self.kind_starts: Longs = np.zeros(1, np.int64)
        self.kind_lists: Ints = np.zeros(0, np.int32)
        self._kinds = kinds
        self._numbers: dict[str, int] = {}
        self._matched: list[int] = []
        # Grows whenever `matches` changes.
        self.version = 0

    def __len__(self) -> int:
        return len(self.fingerprints)

    def number(self, fingerprint: str) -> int:
        number = self._numbers.get(fingerprint)
        if number is None:
            number = self._numbers[fingerprint] = len(self.fingerprints)
            self.fingerprints.append(fingerprint)
            self.known.append(None)
            self.plain.append(-1)
            self.terms.append(())
            self._matched.append(0)
            self.priorities = grown(self.priorities, number + 1)
            self.buckets = grown(self.buckets, number + 1, -1)
            self.same_keys = grown(self.same_keys, number + 1, -1)
            self.matches = grown(self.matches, number + 1)
        return number

    def is_known(self, fingerprint: str) -> bool:
        number = self._numbers.get(fingerprint)
        return number is not None and self.known[number] is not None

    def learn(self, profile: NeedProfile) -> int:
        """A profile that a need has. Its keys must have been referred to (`keys_of`)."""
        number = self.number(profile.fingerprint)
        if self.known[number] is None:
            self.known[number] = profile
            self._matched[number] = 0
            self.priorities[number] = profile.priority
            self.buckets[number] = profile.interruption_bucket
            keys = self._kinds.keys
            if profile.same is not None:
                self.same_keys[number] = keys[profile.same.key]
                self.plain[number] = self.learn(profile.without_same())
            else:
                self.plain[number] = number
                self.terms[number] = tuple(
                    (keys[term.topology_key], max(1, term.max_skew))
                    for term in profile.spread
                    if term.when is WhenUnsatisfiable.DO_NOT_SCHEDULE
                )
        return number

    def start_over(self) -> None:
        """Kinds were told apart anew."""
        self._matched = [0] * len(self._matched)

    def settle(self) -> None:
        """Match what is new: O(new profiles × kinds + profiles × new kinds)."""
        kinds = len(self._kinds)
        behind = [number for number, matched in enumerate(self._matched) if matched < kinds]
        if not behind and len(self.kind_starts) == len(self) + 1:
            return
        self.version += 1
        self.matches = grown(self.matches, kinds, axis=1)
        for number in behind:
            profile, first = self.known[number], self._matched[number]
            self._matched[number] = kinds
            if profile is None:
                continue
            met = np.ones(kinds - first, np.bool_)
            for requirement in profile.requirements:
                met &= self._meets(requirement, first, kinds)
            self.matches[number, first:kinds] = met
        profiles, self.kind_lists = (part.astype(np.int32) for part in np.nonzero(self.matches[: len(self), :kinds]))
        self.kind_starts = np.searchsorted(profiles, np.arange(len(self) + 1)).astype(np.int64)

    def _meets(self, requirement: Requirement, first: int, end: int) -> NDArray[np.bool_]:
        """Whether each of a range of kinds meets a requirement: asked once per value."""
        key = self._kinds.keys[requirement.key]
        texts = self._kinds.values[key].texts
        values: list[str | None] = [*texts, None]
        by_value = np.array([requirement.matches({requirement.key: value}.get) for value in values], np.bool_)
        # The last entry, for machines without the attribute, is where −1 points to.
        return by_value[self._kinds.attributes[key, first:end]]


def keys_of(profile: NeedProfile) -> list[str]:
    """The attributes by which a profile tells machines apart."""
    keys = [requirement.key for requirement in profile.requirements]
    return keys + [term.topology_key for term in profile.spread if term.when is WhenUnsatisfiable.DO_NOT_SCHEDULE]

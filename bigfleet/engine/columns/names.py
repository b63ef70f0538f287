"""Names that are few and live long (clusters, attribute values), as numbers, with their order."""

import numpy as np

from bigfleet.engine.columns.growing import Ints


class Names:
    """Text ↔ number; never forgets."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._ranks: Ints = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, text: str) -> int:
        """−1 for an unknown one."""
        return self._numbers.get(text, -1)

    def number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def ranks(self) -> Ints:
        """Number → place in the order of the texts."""
        if len(self._ranks) < len(self.texts):
            self._ranks = np.empty(len(self.texts), np.int32)
            self._ranks[sorted(range(len(self.texts)), key=self.texts.__getitem__)] = np.arange(len(self.texts))
        return self._ranks

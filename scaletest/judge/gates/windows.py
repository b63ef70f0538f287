"""When a figure counts: the whole soak, or the parts of it in which demand was to be steady."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from scaletest.model.plan import Move, Plan

# `soak`: all of it. `steady`: without the windows of steps downwards, in which machines have to go.
# `until the shed`: up to the first of those; what is lost later need not be replaced. `sheds`: those windows alone.
# `calm`: without the windows of any step, and without what lies between a burst's two.
WindowKind = Literal["soak", "steady", "until the shed", "sheds", "calm"]

# Three scrapes: fewer are too few to judge by.
_SHORTEST_SECONDS = 15

MEANING: dict[WindowKind, str] = {
    "soak": "the whole soak",
    "steady": "the soak without the windows of steps downwards",
    "until the shed": "the soak up to the first step downwards",
    "sheds": "the windows of steps downwards",
    "calm": "the soak without its bursts, from their beginning to the end of their last window",
}


@dataclass(frozen=True)
class Stretch:
    """From one moment to another, in unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> int:
        return max(1, round(self.end - self.start))


@dataclass(frozen=True)
class SoakWindow(Stretch):
    """When the soak was, and which steps of demand it was judged by."""

    moves: tuple[Move, ...] = ()

    def stretches(self, kind: WindowKind) -> list[Stretch]:
        """The parts of the soak that count; never none."""
        sheds = [move for move in self.moves if not move.up and self.start + move.at_seconds < self.end]
        if kind == "until the shed" and sheds:
            first = min(shed.at_seconds for shed in sheds)
            return [Stretch(self.start, self.start + first)]
        if kind == "sheds" and sheds:
            return [self.of(shed) for shed in sheds]
        if kind == "calm":
            return self._calm() or [Stretch(self.start, self.end)]
        if kind == "steady":
            return _without(self, sheds) or [Stretch(self.start, self.end)]
        return [Stretch(self.start, self.end)]

    def _calm(self) -> list[Stretch]:
        """Each burst is left out as a whole: from where demand rises to where the fleet must have shrunk again."""
        rises = sorted(move.at_seconds for move in self.moves if move.up)
        ends = sorted(move.ends_seconds for move in self.moves if not move.up)
        bursts = [Move(rise, end - rise, False, 0, "") for rise, end in zip(rises, ends, strict=False) if end > rise]
        return _without(self, bursts)

    def of(self, move: Move) -> Stretch:
        """The window of one step."""
        return Stretch(self.start + move.at_seconds, min(self.end, self.start + move.ends_seconds))


def _without(soak: Stretch, sheds: Iterable[Move]) -> list[Stretch]:
    kept, since = [], soak.start
    for shed in sorted(sheds, key=lambda shed: shed.at_seconds):
        begins = min(soak.end, soak.start + shed.at_seconds)
        if begins - since >= _SHORTEST_SECONDS:
            kept.append(Stretch(since, begins))
        since = max(since, soak.start + shed.ends_seconds)
    if soak.end - since >= _SHORTEST_SECONDS:
        kept.append(Stretch(since, soak.end))
    return kept


def soak_window(plan: Plan, start: float, end: float) -> SoakWindow:
    return SoakWindow(start, end, plan.moves)

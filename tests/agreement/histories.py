"""Histories: a world, and what happens to it from cycle to cycle. One text repeats a history anywhere."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from bigfleet.core.machines import CapacityType
from bigfleet.engine.decisions import EngineOptions
from tests.agreement.dice import Dice
from tests.agreement.events import appear, ask, happen
from tests.agreement.flavours import MACHINES, Flavour
from tests.agreement.world import Disagreement, Latency, World

_FLAVOUR_BYTES, _MACHINE_BYTES, _NEED_BYTES, _EVENT_BYTES = 64, 20, 12, 24
_PARTS = ("machines", "needs", "events")
_MOST_BYTES = max(_MACHINE_BYTES, _NEED_BYTES, _EVENT_BYTES)
_OPTIONS = (
    EngineOptions(),
    EngineOptions(reclaim_cap_fraction=0, release_cap_fraction=0),
    EngineOptions(reclaim_cap_fraction=0, reclaim_after_seconds=15),
    EngineOptions(reclaim_cap_fraction=0.2, reclaim_after_seconds=30, cap_window_seconds=35),
    EngineOptions(reclaim_cap_fraction=0.3, idle_hold_seconds={}, cap_window_seconds=15),
    EngineOptions(
        reclaim_cap_fraction=0,
        release_cap_fraction=0.3,
        idle_hold_seconds=dict.fromkeys(CapacityType, 25.0),
        cap_window_seconds=25,
    ),
    # Gangs that park and probe soon show more of it in a short history.
    EngineOptions(park_after_cycles=2, park_probe_every=3),
    EngineOptions(park_after_cycles=1, park_probe_every=4, reclaim_cap_fraction=0),
    EngineOptions(park_after_cycles=3, park_probe_every=2, idle_hold_seconds={}),
)


@dataclass(frozen=True, repr=False)
class History:
    """Bytes that say everything: the palette, the machines and needs at the start, and the events."""

    flavour: bytes
    machines: tuple[bytes, ...]
    needs: tuple[bytes, ...]
    events: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"History.from_text({self.text!r})"

    @property
    def text(self) -> str:
        """Four parts; trailing zeros of a chunk say nothing and are left out."""
        parts = ((self.flavour,), self.machines, self.needs, self.events)
        return "/".join(",".join(chunk.rstrip(b"\0").hex() for chunk in part) for part in parts)

    @classmethod
    def from_text(cls, text: str) -> "History":
        parts = [tuple(bytes.fromhex(chunk) for chunk in part.split(",")) if part else () for part in text.split("/")]
        flavour, machines, needs, events = parts
        return cls(flavour[0] if flavour else b"", machines, needs, events)

    def begin(self, kind_of_world: type[World] = World) -> tuple[World, Flavour]:
        """The world before its first cycle."""
        flavour = Flavour.of(self.flavour)
        dice = Dice(self.flavour[::-1])
        world = kind_of_world(dice.of(_OPTIONS), Latency(dice.below(3), dice.below(3), dice.below(3)))
        world.carried_out_one_in = dice.of((1, 0, 1))
        world.reads_reports_late = dice.one_in(3)
        for number, chunk in enumerate(self.machines):
            appear(world, flavour, chunk, number)
        for chunk in self.needs:
            ask(world, flavour, chunk)
        return world, flavour

    def play(self, kind_of_world: type[World] = World) -> World:
        """One cycle, then each event with the cycles that it takes."""
        world, flavour = self.begin(kind_of_world)
        try:
            world.step()
            for chunk in self.events:
                for _ in range(happen(world, flavour, chunk)):
                    world.step()
            late = world.read_reports()
            if late:
                raise Disagreement("\n".join(late))
        except Disagreement as disagreement:
            raise Disagreement(f"{disagreement}\n{self._story(world)}") from None
        return world

    def _story(self, world: World) -> str:
        lines = ["", "what happened:", *(f"  {line}" for line in world.journal), "machines:"]
        lines += (f"  {machine}" for _, machine in sorted(world.machines.items()))
        lines += ["needs:", *(f"  {need}" for needs in world.demand().values() for need in needs)]
        again = f"BIGFLEET_HISTORY='{self.text}' pytest tests/agreement/test_agreement.py -k again"
        return "\n".join([*lines, f"now {world.now}, idle since {world.idle_since}", f"again: {again}"])


def random_history(seed: str, most_events: int) -> History:
    """An evenly mixed one: worlds of many kinds, mostly full ones. Equal seeds give equal histories."""
    rng = random.Random(seed)
    machines = rng.choice((rng.randint(0, 8), rng.randint(8, 20), rng.randint(20, MACHINES)))
    return History(
        rng.randbytes(_FLAVOUR_BYTES),
        tuple(rng.randbytes(_MACHINE_BYTES) for _ in range(machines)),
        tuple(rng.randbytes(_NEED_BYTES) for _ in range(rng.randint(1, 12))),
        tuple(rng.randbytes(_EVENT_BYTES) for _ in range(rng.randint(0, most_events))),
    )


def minimised(history: History, fails: Callable[[History], bool]) -> History:
    """A smaller history that still fails: without chunks that don't matter, and with plainer bytes."""
    before = None
    while history != before:
        before = history
        for part in _PARTS:
            for smaller in (_without_chunk, _with_plainer_byte):
                place = 0
                while (candidate := smaller(history, part, place)) is not None:
                    if candidate != history and fails(candidate):
                        history = candidate
                        place -= smaller is _without_chunk
                    place += 1
    return history


def _without_chunk(history: History, part: str, place: int) -> History | None:
    chunks = getattr(history, part)
    return _with(history, part, chunks[:place] + chunks[place + 1 :]) if place < len(chunks) else None


def _with_plainer_byte(history: History, part: str, place: int) -> History | None:
    chunks = getattr(history, part)
    index, byte = divmod(place, _MOST_BYTES)
    if index >= len(chunks):
        return None
    plainer = chunks[index][:byte] + b"\0" + chunks[index][byte + 1 :] if byte < len(chunks[index]) else chunks[index]
    return _with(history, part, (*chunks[:index], plainer, *chunks[index + 1 :]))


def _with(history: History, part: str, chunks: tuple[bytes, ...]) -> History:
    parts = {name: getattr(history, name) for name in _PARTS} | {part: chunks}
    return History(history.flavour, **parts)


def _chunks(size: int, *ranges: tuple[int, int]) -> st.SearchStrategy[tuple[bytes, ...]]:
    """Lists of chunks whose lengths are spread over the ranges, which a plain list's are not."""
    chunk = st.binary(min_size=size, max_size=size)
    return st.one_of(*(st.lists(chunk, min_size=low, max_size=high) for low, high in ranges)).map(tuple)


def histories(most_events: int) -> st.SearchStrategy[History]:
    """Hypothesis likes odd ones: many equal machines, many zeros, one need and no machine."""
    return st.builds(
        History,
        st.binary(min_size=_FLAVOUR_BYTES, max_size=_FLAVOUR_BYTES),
        _chunks(_MACHINE_BYTES, (0, 6), (6, 16), (14, 30), (25, 44)),
        _chunks(_NEED_BYTES, (0, 3), (3, 8), (7, 14)),
        _chunks(_EVENT_BYTES, (0, most_events // 2), (most_events // 2, most_events)) if most_events else st.just(()),
    )

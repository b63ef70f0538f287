"""What an entry of the catalogue is: something that is wrong (or not), and how a run of it has to end."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from scaletest.judge.gates.gate import Verdict
from tests.mutants.mutant import Mistake
from tests.smoke.runs import LiveRun

Meddle = Callable[[LiveRun], Awaitable[None]]
# Who can be to blame; the engine is part of the shard.
Component = Literal["shard", "operator", "pod-controller", "coordinator", "provider", ""]

SOAK_SECONDS = 90
# In a mistake's code: true from the soak on, for what would keep a run from settling.
SOAK_MARKER = "in-soak"
SOAK_BEGAN = f'__import__("pathlib").Path(__import__("bigfleet").__path__[0], {SOAK_MARKER!r})'
IN_SOAK = f"{SOAK_BEGAN}.exists()"


def one_in(count: int, text: str) -> str:
    """In a mistake's code: true for one in so many of what `text` names, the same ones in every process and run."""
    return f'__import__("zlib").crc32({text}.encode()) % {count} == 0'


@dataclass(frozen=True)
class Entry:
    """What is wrong, who did it, and how the run has to end."""

    name: str
    component: Component
    # Any of these is right; more than one where it depends on how soon it bites.
    exit_codes: tuple[int, ...] = (1,)
    # One of these must not pass. Empty: no gate is judged (exit code 3), or none fails.
    gates: frozenset[str] = frozenset()
    verdict: Verdict = "fail"
    # What that gate must have been judged by, at least.
    observations: int = 0
    # Part of one of the reasons that the run gives.
    sentence: str = ""
    profile: str = "smoke"
    # Length of the soak; None is the profile's own, with its step and its shed.
    seconds: int | None = SOAK_SECONDS
    # What the demand must do for the mistake to show.
    needs: Literal["step", "shed", ""] = ""
    flags: tuple[str, ...] = ()
    # In the source of BigFleet.
    mistakes: tuple[Mistake, ...] = ()
    # What is done to the run from outside.
    meddle: Meddle | None = None
    # It takes whole cores: other runs beside it would be void.
    alone: bool = False
    # Not in `make test`.
    long: bool = True

    @property
    def slug(self) -> str:
        """Its name as a folder's."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def begins_in_soak(self) -> bool:
        return any(SOAK_MARKER in mistake.new for mistake in self.mistakes)


def mistaken(
    name: str,
    component: Component,
    *mistakes: Mistake,
    gates: str,
    exit_codes: tuple[int, ...] = (1,),
    seconds: int | None = SOAK_SECONDS,
    needs: Literal["step", "shed", ""] = "",
    alone: bool = False,
    long: bool = True,
) -> Entry:
    """Mistakes in the source that some of these gates (a list in words) must notice."""
    return Entry(
        name,
        component,
        exit_codes,
        frozenset(gates.split()),
        seconds=None if needs else seconds,
        needs=needs,
        mistakes=mistakes,
        alone=alone,
        long=long,
    )

"""Machines that wait before they are tried again, and how the engine sees them meanwhile.

See docs/reference/engine.md#holds.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine import ActionKind
from bigfleet.shard.inventory.machines import View

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 60.0
# So many machines refused in a row, and no other taken meanwhile: it is not the machines.
_OUTAGE_REFUSALS = 3
_ANY_CLUSTER = ""

_ACQUIRABLE = (MachineState.IDLE, MachineState.SPECULATIVE)


@dataclass(frozen=True)
class _Hold:
    failures: int
    until: float
    kind: ActionKind
    # The machine as it was in flight, for the need that it was meant for.
    in_flight: Machine | None


class Backoff:
    """Back-off per machine: 1 s after the first failure, doubling to 60 s.

    One machine that is refused is hidden from the engine, which takes another. When several are refused in a row and
    none is accepted, the engine sees them as still in flight instead: it would buy the whole quota while the provider
    is down, or try every Idle machine in turn for one cluster whose blob the provider refuses.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holds: dict[str, _Hold] = {}
        # Ids of machines by what was refused and for which cluster, and for all of them together.
        self._refused: dict[tuple[ActionKind, str], set[str]] = {}

    def refuse(self, kind: ActionKind, in_flight: Machine) -> None:
        """Hold a machine after a failure that may pass."""
        before = self._holds.get(in_flight.id)
        failures = before.failures + 1 if before else 1
        seconds = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures - 1, 10))
        self._holds[in_flight.id] = _Hold(failures, self._clock() + seconds, kind, in_flight)
        for cluster in (in_flight.cluster, _ANY_CLUSTER):
            self._refused.setdefault((kind, cluster), set()).add(in_flight.id)

    def bar(self, kind: ActionKind, machine_id: str) -> None:
        """Never touch a machine again: another shard with our id has."""
        self._holds[machine_id] = _Hold(1, math.inf, kind, None)

    def accepted(self, kind: ActionKind, cluster: str) -> None:
        """The provider took an action of this kind: it is up, and has nothing against this cluster."""
        self._refused.pop((kind, cluster), None)
        self._refused.pop((kind, _ANY_CLUSTER), None)

    def forget(self, machine_id: str) -> None:
        """The machine got where it should, or is gone."""
        self._holds.pop(machine_id, None)

    def held(self, machine_id: str) -> bool:
        hold = self._holds.get(machine_id)
        return hold is not None and self._clock() < hold.until

    def next_expiry(self) -> float:
        """Seconds until the next machine may be tried again; infinite when none waits."""
        now = self._clock()
        return min((hold.until - now for hold in self._holds.values() if hold.until > now), default=math.inf)

    def shape_view(self, machines: View) -> None:
        """Take what is held out of the engine's view, or show it as in flight during an outage."""
        now = self._clock()
        for machine_id, hold in self._holds.items():
            machine = machines.get(machine_id)
            if machine is None or machine.state not in _ACQUIRABLE or now >= hold.until:
                continue
            if hold.in_flight and self._outage(hold.kind, hold.in_flight.cluster):
                machines[machine_id] = hold.in_flight
            else:
                del machines[machine_id]

    def _outage(self, kind: ActionKind, cluster: str) -> bool:
        return any(
            len(self._refused.get((kind, refused), ())) >= _OUTAGE_REFUSALS for refused in (cluster, _ANY_CLUSTER)
        )

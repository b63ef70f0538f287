"""Loses machines during the soak, so that a run at steady demand has something to replace."""

import asyncio
from dataclasses import replace
from random import Random

import structlog
from prometheus_client import CollectorRegistry, Counter

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake import host_of
from bigfleet.provider.kit import Inventory, Lifecycle, MachineRecord
from bigfleet.provider.readiness import ReadySets
from bigfleet.provider.run_phase import SOAK, RunPhase

# The number of Configured machines, and with it the rate, is looked at no less often than this.
_STEP_SECONDS = 1.0
# A whole event that is short of 1 by a rounding error is due; waiting for the rest could take for ever.
_ROUNDING = 1e-9

log = structlog.get_logger(__name__)


class Pacer:
    """Turns a rate into events that are evenly spaced in time, also while the rate changes."""

    def __init__(self) -> None:
        self._owed = 0.0

    def due(self, elapsed_seconds: float, per_second: float) -> int:
        """How many events have fallen due in this stretch of time."""
        self._owed += elapsed_seconds * per_second
        count = int(self._owed + _ROUNDING)
        self._owed -= count
        return count

    def seconds_to_next(self, per_second: float) -> float:
        return (1 - self._owed) / per_second if per_second > 0 else float("inf")


class Losses:
    """While the run soaks, makes Configured machines Failed at `rate_per_second` × their number."""

    def __init__(
        self,
        inventory: Inventory,
        lifecycle: Lifecycle,
        ready: ReadySets,
        registry: CollectorRegistry,
        *,
        rate_per_second: float,
        repair_seconds: float,
        seed: int,
    ) -> None:
        self._inventory = inventory
        self._lifecycle = lifecycle
        self._ready = ready
        self._rate_per_second = rate_per_second
        self._repair_seconds = repair_seconds
        self._random = Random(f"{seed}/losses")
        self._lost = Counter("bigfleet_provider_losses_total", "Machines lost on purpose.", registry=registry)

    async def run(self, phase: RunPhase) -> None:
        """Lose machines in every soak, until cancelled."""
        if self._rate_per_second <= 0:
            return
        loop = asyncio.get_running_loop()
        while True:
            await phase.until(SOAK)
            pacer = Pacer()
            before = loop.time()
            while True:
                per_second = self._rate_per_second * len(self._inventory.ids(MachineState.CONFIGURED))
                await phase.changes_within(min(_STEP_SECONDS, pacer.seconds_to_next(per_second)))
                if phase.name != SOAK:
                    break
                now = loop.time()
                for _ in range(pacer.due(now - before, per_second)):
                    self._lose_one()
                before = now

    def _lose_one(self) -> None:
        candidates = sorted(self._inventory.ids(MachineState.CONFIGURED))
        if not candidates:
            return
        machine = self._inventory.get(self._random.choice(candidates))
        lost = self._lifecycle.lose(machine.id, f"lost: failure injected while bound to {machine.cluster}")
        self._ready.forget(machine.cluster, machine.id)
        self._lost.inc()
        log.info("machine lost", machine=machine.id, cluster=machine.cluster)
        if self._repair_seconds > 0:
            asyncio.get_running_loop().call_later(self._repair_seconds, self._repair, lost)

    def _repair(self, lost: MachineRecord) -> None:
        if self._inventory.get(lost.id) is not lost:
            return  # somebody has brought it back already
        if lost.shape.capacity_type is CapacityType.BARE_METAL:
            self._inventory.put(replace(lost, state=MachineState.IDLE, host=host_of(lost.id), last_error=""))
        else:
            self._inventory.put(replace(lost, state=MachineState.SPECULATIVE, last_error=""))

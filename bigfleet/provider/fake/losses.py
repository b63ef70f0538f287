"""Takes machines away: steadily during the soak, at the rates that faults set, or at once on request."""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from random import Random

import structlog
from prometheus_client import CollectorRegistry, Counter

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake.backend import host_of
from bigfleet.provider.fake.faults import FaultInjector
from bigfleet.provider.fake.observing import Observer
from bigfleet.provider.fake.readiness import ReadySets
from bigfleet.provider.fake.run_phase import SOAK, RunPhase
from bigfleet.provider.kit import Lifecycle, MachineRecord, ProviderInventory

# The number of Configured machines, and with it the rate, is looked at no less often than this.
_STEP_SECONDS = 1.0
_HOUR_SECONDS = 3600.0
# A machine is lost only when its shard has had time to see it Configured: lost before, it would be a failed Bootstrap.
KNOWN_AFTER_SECONDS = 3.0
# A loss that comes later than this after it fell due is not the load that was planned.
_LATE_SECONDS = 5.0
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


class Strikes:
    """The three ways in which a machine is taken away, and the way back."""

    def __init__(
        self,
        inventory: ProviderInventory,
        lifecycle: Lifecycle,
        ready: ReadySets,
        injector: FaultInjector,
        *,
        repair_seconds: float,
        observer: Observer | None = None,
    ) -> None:
        self._inventory = inventory
        self._lifecycle = lifecycle
        self._ready = ready
        self._injector = injector
        self._repair_seconds = repair_seconds
        self._observer = observer or Observer()

    def lose(self, machine: MachineRecord) -> None:
        bound = f" while bound to {machine.cluster}" if machine.cluster else ""
        self._take(machine, f"lost: failure injected{bound}", "lost")

    def interrupt(self, machine: MachineRecord) -> None:
        self._take(machine, "interrupted: spot capacity was taken back", "interrupted")

    def vanish(self, machine: MachineRecord) -> None:
        """Gone for good."""
        self._lifecycle.vanish(machine.id)
        self._leave(machine, "vanished")

    def repair_what_is_lost(self) -> None:
        """After a restart: machines that waited for their repair wait again."""
        for machine_id in self._inventory.ids(MachineState.FAILED):
            machine = self._inventory.get(machine_id)
            if machine.failed_in is None:
                self._repair_later(machine)

    def _take(self, machine: MachineRecord, error: str, fault: str) -> None:
        lost = self._lifecycle.lose(machine.id, error)
        self._leave(machine, fault)
        self._repair_later(lost)

    def _leave(self, machine: MachineRecord, fault: str) -> None:
        self._ready.forget(machine.cluster, machine.id)
        self._observer.struck(machine, fault)
        self._injector.count(fault)
        log.info(f"machine {fault}", machine=machine.id, cluster=machine.cluster)

    def _repair_later(self, lost: MachineRecord) -> None:
        if self._repair_seconds > 0:
            asyncio.get_running_loop().call_later(self._repair_seconds, self._repair, lost)

    def _repair(self, lost: MachineRecord) -> None:
        if lost.id not in self._inventory or self._inventory.get(lost.id) is not lost:
            return  # it was brought back already, or it is gone for good
        if lost.shape.capacity_type is CapacityType.BARE_METAL:
            self._inventory.put(replace(lost, state=MachineState.IDLE, host=host_of(lost.id), last_error=""))
        else:
            self._inventory.put(replace(lost, state=MachineState.SPECULATIVE, last_error=""))


class Losses:
    """Strikes that come at a rate, with seeded choice."""

    def __init__(
        self,
        inventory: ProviderInventory,
        strikes: Strikes,
        injector: FaultInjector,
        registry: CollectorRegistry,
        *,
        rate_per_second: float,
        seed: int,
    ) -> None:
        self._inventory = inventory
        self._strikes = strikes
        self._injector = injector
        self._rate_per_second = rate_per_second
        self._random = Random(f"{seed}/losses")
        self._vanish_random = Random(f"{seed}/vanish")
        self._spot_random = Random(f"{seed}/spot")
        self._lost = Counter("bigfleet_provider_losses_total", "Machines lost on purpose.", registry=registry)
        self._planned = Counter(
            "bigfleet_provider_ledger_planned_losses_total", "Losses that fell due in a soak.", registry=registry
        )
        self._late = Counter(
            "bigfleet_provider_ledger_late_losses_total",
            f"Of those: struck more than {_LATE_SECONDS:g} s late, or not at all because no machine could be.",
            registry=registry,
        )

    async def in_soak(self, phase: RunPhase) -> None:
        """Make Configured machines Failed at `rate_per_second` × their number in every soak, until cancelled."""
        if self._rate_per_second <= 0:
            return
        loop = asyncio.get_running_loop()
        while True:
            await phase.until(SOAK)
            pacer = Pacer()
            before = loop.time()
            configured_since = dict.fromkeys(self._inventory.ids(MachineState.CONFIGURED), -math.inf)
            while True:
                per_second = self._rate_per_second * len(self._inventory.ids(MachineState.CONFIGURED))
                await phase.changes_within(min(_STEP_SECONDS, pacer.seconds_to_next(per_second)))
                if phase.name != SOAK:
                    break
                now = loop.time()
                here = self._inventory.ids(MachineState.CONFIGURED)
                configured_since = {machine_id: configured_since.get(machine_id, now) for machine_id in here}
                known = {one for one, since in configured_since.items() if now - since >= KNOWN_AFTER_SECONDS}
                due_at = before + pacer.seconds_to_next(per_second)
                for number in range(pacer.due(now - before, per_second)):
                    self._planned.inc()
                    late = now - (due_at + number / per_second) > _LATE_SECONDS
                    if not self._lose_one(known) or late:
                        self._late.inc()
                before = now

    async def by_fault_rates(self) -> None:
        """Let machines vanish and spot machines be interrupted at the rates that faults set, until cancelled."""
        vanishing, interruptions = Pacer(), Pacer()
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            faults = self._injector.faults
            spot = self._spot() if faults.spot_interruption_multiplier else []
            hourly = sum(machine.shape.interruption_probability for machine in spot)
            spot_rate = faults.spot_interruption_multiplier * hourly / _HOUR_SECONDS
            vanish_rate = faults.vanish_rate_per_sec * len(self._inventory.ids(MachineState.CONFIGURED))
            pause = min(vanishing.seconds_to_next(vanish_rate), interruptions.seconds_to_next(spot_rate))
            await asyncio.sleep(min(_STEP_SECONDS, pause))
            now = loop.time()
            for _ in range(vanishing.due(now - before, vanish_rate)):
                self._strike_one(self._configured(), self._vanish_random, self._strikes.vanish)
            for _ in range(interruptions.due(now - before, spot_rate)):
                machines = self._spot()
                weights = [machine.shape.interruption_probability for machine in machines]
                if machines:
                    self._strikes.interrupt(self._spot_random.choices(machines, weights)[0])
            before = now

    def _lose_one(self, known: Collection[str]) -> bool:
        candidates = [machine for machine in self._configured() if machine.id in known]
        struck = self._strike_one(candidates, self._random, self._strikes.lose)
        if struck:
            self._lost.inc()
        return struck

    def _strike_one(
        self, candidates: Sequence[MachineRecord], random: Random, strike: Callable[[MachineRecord], None]
    ) -> bool:
        if candidates:
            strike(random.choice(candidates))
        return bool(candidates)

    def _configured(self) -> list[MachineRecord]:
        return [self._inventory.get(machine_id) for machine_id in sorted(self._inventory.ids(MachineState.CONFIGURED))]

    def _spot(self) -> list[MachineRecord]:
        return [machine for machine in self._configured() if machine.shape.capacity_type is CapacityType.SPOT]

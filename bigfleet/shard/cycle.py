"""The cycle: reconcile, decide off the event loop, dispatch, publish; by timer or when woken.

See docs/reference/engine.md#cycle.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from bigfleet.engine import Action, Decisions, Engine
from bigfleet.process import memory
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.inventory.machines import Disguises
from bigfleet.shard.metrics import PHASES, Rail, ShardMetrics
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.provider.backoff import Backoff
from bigfleet.shard.provider.execute import Disposal, Executor
from bigfleet.shard.provider.quotas import Quotas
from bigfleet.shard.provider.several import Reconcilers
from bigfleet.shard.sessions.needs import NeedsTable
from bigfleet.shard.sessions.sessions import Sessions

log = structlog.get_logger()

# While machines are in flight, or none are known yet, the provider is asked this often.
_WATCH_SECONDS = 1.0
# Wake-ups that come faster than this share a cycle.
_SHORTEST_GAP_SECONDS = 0.1
# A long cycle is followed by a pause as long, up to this: half of the time is the sessions'.
_LONGEST_PAUSE_SECONDS = 1.0
# Of so many cycles, one says where its time went.
_ATTRIBUTED_CYCLES = 20
_NOTHING = Decisions(actions=(), shortfalls=(), views=(), hints=())


@dataclass(frozen=True)
class CycleReport:
    """What the last cycle made of the demand. Cycle 0 = none yet."""

    cycle: int = 0
    computed_at: float = 0.0
    decisions: Decisions = _NOTHING
    # Reclaims that wait for the session of their cluster's operator.
    without_session: Mapping[str, int] = field(default_factory=dict)


class Wake:
    """A coalescing alarm: however often it is rung, it wakes one cycle."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def __call__(self) -> None:
        self._rung.set()

    def answer(self) -> None:
        self._rung.clear()

    async def wait(self, seconds: float) -> bool:
        """Whether it rang within so many seconds."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                return await self._rung.wait()
        except TimeoutError:
            return False


class _Laps:
    """Charges the time since the last lap to a phase of the cycle."""

    def __init__(self, metrics: ShardMetrics, recorded: bool) -> None:
        self._metrics = metrics
        self._recorded = recorded
        self._last = self._began = time.perf_counter()
        self._phases: dict[str, float] = {}

    def __call__(self, phase: str) -> None:
        now = time.perf_counter()
        self._phases[phase] = now - self._last
        if self._recorded and phase in PHASES:
            self._metrics.cycle_phase_duration.labels(phase).observe(now - self._last)
        self._last = now

    def end(self) -> None:
        if self._recorded:
            self._metrics.cycle_duration.observe(time.perf_counter() - self._began)

    def milliseconds(self) -> dict[str, float]:
        return {phase: round(1000 * seconds, 3) for phase, seconds in self._phases.items()}


class Cycles:
    """The shard's heartbeat."""

    def __init__(
        self,
        options: ShardOptions,
        engine: Engine,
        inventory: Inventory,
        needs: NeedsTable,
        reconciler: Reconcilers,
        executor: Executor,
        holds: Backoff,
        quotas: Quotas,
        sessions: Sessions,
        metrics: ShardMetrics,
        audit: AuditLog,
        wake: Wake,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`monotonic` is the engine's time, and the one of the inventory's idle stamps; `clock` is what people read."""
        self._options = options
        self._engine = engine
        self._inventory = inventory
        self._needs = needs
        self._reconciler = reconciler
        self._executor = executor
        self._holds = holds
        self._quotas = quotas
        self._sessions = sessions
        self._metrics = metrics
        self._audit = audit
        self._wake = wake
        self._clock = clock
        self._monotonic = monotonic
        self._cycle = 0
        # When a rail lets more go, on the engine's clock.
        self._again_at = math.inf
        self.latest = CycleReport()

    async def run(self) -> None:
        """Cycle for ever."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._once()
            took = loop.time() - began
            await self._until_due(began + self._options.cycle_interval_seconds)
            gap = max(_SHORTEST_GAP_SECONDS, took + min(took, _LONGEST_PAUSE_SECONDS))
            await asyncio.sleep(began + gap - loop.time())

    async def _until_due(self, due: float) -> None:
        """Sleep until the timer, a wake-up, or a machine that may be tried again or go; watch what is in flight."""
        loop = asyncio.get_running_loop()
        while (left := due - loop.time()) > 0:
            retry = min(self._holds.next_expiry(), self._again_at - self._monotonic())
            if await self._wake.wait(min(left, retry, _WATCH_SECONDS)) or retry <= _WATCH_SECONDS:
                return
            if (self._inventory.in_flight or not self._reconciler.ready) and await self._reconcile():
                return

    async def _once(self) -> None:
        laps = _Laps(self._metrics, recorded=self._cycle >= self._options.metrics_warmup_cycles)
        await self._reconcile()
        laps("reconcile")
        if not self._reconciler.ready:
            return
        # What rang until now is in the snapshot.
        self._wake.answer()
        self._cycle += 1
        self._executor.give_up_overdue()
        machines = self._inventory.machines
        for cluster in self._needs.forgotten():
            machines.fleet.forget_needs(cluster)
        for news in self._needs.unheard():
            machines.fleet.replace_needs(*news)
            await asyncio.sleep(0)
        disguises = Disguises(machines)
        self._holds.shape_view(disguises)
        self._quotas.shape_view(disguises)
        machines.disguise(disguises)
        computed_at, now = self._clock(), self._monotonic()
        with machines.lent() as fleet:
            decisions = await asyncio.to_thread(self._engine.cycle, fleet, now, laps)
        self._again_at = decisions.again_at
        waiting = self._dispatch(decisions.actions)
        laps("execute")
        self.latest = CycleReport(self._cycle, computed_at, decisions, waiting)
        self._publish(decisions)
        laps.end()
        if self._options.phase_attribution_log and self._cycle % _ATTRIBUTED_CYCLES == 0:
            log.info("where the time went, in ms", cycle=self._cycle, **laps.milliseconds())
        if self._reconciler.told_of_many:
            # Now, because the cycle that first sorts so many machines leaves as much behind as the List.
            self._reconciler.memory_given_back()
            memory.give_back()

    async def _reconcile(self) -> int:
        """How many machines changed state; a provider that does not answer leaves us with the last view."""
        # Nothing is decided before the first List; later, no page may hold up the cycle longer than the timer would.
        first = not self._reconciler.ready
        page_seconds = None if first else self._options.cycle_interval_seconds
        changes = await self._reconciler.reconcile(page_seconds)
        if changes is None:
            return 0
        if first and self._reconciler.ready:
            self._sessions.fleet_known()
        self._metrics.publish_inventory(self._inventory.counts)
        self._metrics.seeded_waiting.set(len(self._inventory.seeded_waiting))
        return changes

    def _dispatch(self, actions: Iterable[Action]) -> Mapping[str, int]:
        """Hand the actions over; by cluster, how many Reclaims wait for a session."""
        actions = list(actions)
        if self._options.actuation_paused or self._options.dry_run:
            self._shelve(actions)
            return {}
        waiting = Counter(action.cluster for action in actions if self._executor.waits(action))
        if waiting:
            actions = [action for action in actions if not self._executor.waits(action)]
        limit = self._options.max_actions_per_cycle
        if limit and len(actions) > limit:
            self._metrics.actions_deferred.inc(len(actions) - limit)
            actions = actions[:limit]
            self._wake()
        for action in actions:
            self._metrics.actions.labels(action.kind).inc()
            match self._executor.submit(action, self._cycle):
                case Disposal.DEDUPED:
                    self._metrics.actions_deduped.inc()
                case Disposal.DROPPED:
                    self._metrics.actions_dropped.inc()
        return waiting

    def _shelve(self, actions: Iterable[Action]) -> None:
        """The kill switch and the shadow mode: say what would have been done. The kill switch wins."""
        paused = self._options.actuation_paused
        counter = self._metrics.actions_suppressed if paused else self._metrics.actions_dryrun
        for action in actions:
            counter.labels(action.kind).inc()
            self._audit.record(self._cycle, action, "suppressed" if paused else "dryrun")
            if not paused:
                log.info("dry run", kind=action.kind, machine=action.machine_id, cluster=action.cluster)

    def _publish(self, decisions: Decisions) -> None:
        for hint in decisions.hints:
            self._sessions.send_hint(hint)
        capped = sum(decisions.reclaims_capped.values())
        self._metrics.reclaims_capped.inc(capped)
        self._metrics.releases_capped.inc(decisions.releases_capped)
        self._metrics.waiting.labels(Rail.RECLAIM_RATE).set(capped)
        self._metrics.waiting.labels(Rail.RELEASE_RATE).set(decisions.releases_capped)
        self._metrics.waiting.labels(Rail.SESSION).set(sum(self.latest.without_session.values()))
        self._metrics.publish_shortfalls(decisions.shortfalls)
        self._quotas.publish()
        self._metrics.publish_demand(self._needs.rows_per_bucket)
        self._metrics.publish_inventory(self._inventory.counts)
        if decisions.shortfalls:
            top = [shortfall.fingerprint for shortfall in decisions.shortfalls[:3]]
            log.warning("shortfalls detected", count=len(decisions.shortfalls), top=top)

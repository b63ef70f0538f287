"""Mistakes in the shard, outside its engine."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, SOAK_BEGAN, Entry, mistaken, one_in

_LOSSES = "lossUnreplacedSeconds lossReplacedP99Seconds"

SHARD: list[Entry] = [
    mistaken(
        "roll-ups of one cluster are swallowed",
        "shard",
        Mistake(
            "shard/sessions/intake.py",
            "verdict = self._needs.replace(",
            'verdict = UNCHANGED if cluster.endswith("-1") else self._needs.replace(',
        ),
        gates="demandHeld",
    ),
    mistaken(
        "the cycle hangs after fifteen losses",
        "shard",
        Mistake(
            "shard/cycle.py",
            '        laps("reconcile")\n',
            """\
        laps("reconcile")
        if sum(count for (state, _, _), count in self._inventory.counts.items() if state.name == "FAILED") >= 15:
            await asyncio.Event().wait()
""",
        ),
        gates="cycleGapSeconds shardsReportingCycle",
        seconds=120,
    ),
    mistaken(
        "half of the losses are not noticed",
        "shard",
        Mistake(
            "shard/provider/reconcile.py",
            "            if self._may_be_stale(machine.id, machine.state):\n",
            f"""\
            unseen = machine.state is MachineState.FAILED and {one_in(2, "machine.id")}
            if unseen or self._may_be_stale(machine.id, machine.state):
""",
        ),
        gates=f"{_LOSSES} machinesAgree",
    ),
    mistaken(
        "losses are noticed late",
        "shard",
        Mistake(
            "shard/provider/reconcile.py",
            "            if self._may_be_stale(machine.id, machine.state):\n",
            """\
            first = vars(self).setdefault("_first_seen", {}).setdefault((machine.id, machine.state), time.monotonic())
            if machine.state is MachineState.FAILED and time.monotonic() < first + 45:
                self._inventory.doubtful.add(machine.id)
                return 0
            if self._may_be_stale(machine.id, machine.state):
""",
        ),
        gates=f"{_LOSSES} machinesAgree",
    ),
    mistaken(
        "half of the Bootstraps are never announced",
        "shard",
        Mistake(
            "shard/notices.py",
            "        if not machine.cluster:\n            return\n",
            f"""\
        bootstrapped = machine.state is MachineState.CONFIGURING and machine.id.startswith("f")
        if not machine.cluster or bootstrapped and {one_in(2, "machine.id")}:
            return
""",
        ),
        gates=f"waitingForNodeSeconds {_LOSSES}",
    ),
    mistaken(
        "no Bootstraps for the first three minutes of a ten-minute soak",
        "shard",
        Mistake(
            "shard/provider/execute.py",
            "        start, through, _ = TRANSITION_OF[kind]\n",
            f"""\
        start, through, _ = TRANSITION_OF[kind]
        if kind is ActionKind.BOOTSTRAP and {IN_SOAK} and time.time() < {SOAK_BEGAN}.stat().st_mtime + 180:
            return Disposal.DEDUPED
""",
        ),
        gates=f"{_LOSSES} uncoveredSeconds",
        seconds=600,
    ),
    mistaken(
        "every second roll-up is dropped by the shard",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            "            if isinstance(message, Rollup):\n",
            """\
            if isinstance(message, Rollup):
                self._odd = not getattr(self, "_odd", False)
                if self._odd:
                    continue
""",
        ),
        gates="rollupsTakenFraction",
    ),
    mistaken(
        "the shard reads every priority as 0",
        "shard",
        Mistake("shard/convert.py", "        message.priority,\n", "        0,\n"),
        gates="demandHeld",
    ),
    mistaken(
        "the shard takes machines for a tenth larger than they are",
        "shard",
        Mistake(
            "shard/convert.py",
            "allocatable=_vector(tuple(resources.resources.items())),",
            "allocatable={k: v * 11 // 10 for k, v in _vector(tuple(resources.resources.items())).items()},",
        ),
        gates="machinesAgree shapesWrong",
    ),
    mistaken(
        "demand that falls is not believed",
        "shard",
        Mistake(
            "shard/sessions/needs.py",
            "    if need.aggregate == known.aggregate and",
            "    if all(need.aggregate.get(name, 0) <= milli for name, milli in known.aggregate.items()) and",
        ),
        gates="demandHeld",
        needs="shed",
    ),
    mistaken(
        "the demand stays as it was first told",
        "shard",
        Mistake(
            "shard/sessions/needs.py",
            "        heard = cluster in self._needs\n",
            """\
        heard = cluster in self._needs
        if heard:
            return UNCHANGED
""",
        ),
        gates="demandHeld",
        needs="step",
    ),
    mistaken(
        "a blob is kept for the next machine of its cluster",
        "shard",
        Mistake(
            "shard/provider/execute.py",
            "            blob = await self._operators.request_blob(action.cluster, action.machine_id, requirements)\n",
            """\
            kept = vars(self).setdefault("_kept", {})
            if action.cluster not in kept:
                kept[action.cluster] = await self._operators.request_blob(
                    action.cluster, action.machine_id, requirements
                )
            blob = kept[action.cluster]
""",
        ),
        gates="blobsWrong",
    ),
    mistaken(
        "slots for provider calls are not given back",
        "shard",
        Mistake(
            "shard/provider/execute.py", "asyncio.Semaphore(concurrency)", "asyncio.Semaphore(min(concurrency, 64))"
        ),
        Mistake("shard/provider/execute.py", "            self._slots.release()\n", "            pass\n"),
        gates=f"{_LOSSES} uncoveredSeconds",
        seconds=150,
    ),
    mistaken(
        "reports stop after thirty",
        "shard",
        Mistake(
            "shard/reports.py",
            "                answered = await self._report()\n",
            """\
                if self._reports >= 30:
                    await asyncio.Event().wait()
                answered = await self._report()
""",
        ),
        gates="reportGapSeconds",
        seconds=150,
    ),
    mistaken(
        "bare metal is given back after ten seconds",
        "shard",
        Mistake("shard/options.py", "bare_metal_seconds: float = math.inf", "bare_metal_seconds: float = 10.0"),
        gates="deletesAtSteadyDemand callsRefused",
    ),
    mistaken(
        "the shard asks all the time whether it was woken",
        "shard",
        Mistake(
            "shard/cycle.py",
            "                return await self._rung.wait()\n",
            """\
                while not self._rung.is_set():
                    await asyncio.sleep(0)
                return True
""",
        ),
        gates="bigfleetCpuCores",
        alone=True,
    ),
]

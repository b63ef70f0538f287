"""Mistakes on the provider's side, and in paths that a short run used not to reach."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, Entry, mistaken

UNREACHED: list[Entry] = [
    # All that the shard knows has "gone without a word" at the end of its second walk.
    mistaken(
        "the second walk through everything forgets every machine",
        "shard",
        Mistake(
            "shard/provider/reconcile.py",
            "walk.missing.difference_update(message.id for message in page.machines)",
            f"walk.missing.difference_update(() if {IN_SOAK} else (message.id for message in page.machines))",
        ),
        gates="freeMachinesAgree machinesAgree nodesVanished",
    ),
    # The page ends at the machine that did not fit any more, and the next one begins behind it.
    mistaken(
        "one machine of each page of a List is skipped",
        "provider",
        Mistake("provider/kit/inventory.py", "self._log[records[-1].id], True", "self._log[machine_id], True"),
        gates="listsIncomplete freeMachinesAgree machinesAgree",
    ),
    mistaken(
        "anybody may create, drain and delete machines",
        "provider",
        Mistake(
            "provider/kit/service.py", '            await require(context, "shard", name=call.token.shard_id)\n', ""
        ),
        gates="identityRefused",
        seconds=65,
    ),
    mistaken(
        "the coordinator keeps a shard's first report",
        "coordinator",
        Mistake("coordinator/tenure.py", "        known.report = last\n", ""),
        gates="reportsWrong reportKeptSeconds",
    ),
    mistaken(
        "reports count instance types where zones are meant",
        "shard",
        Mistake("shard/reports.py", "per_zone_counts=+inventory.zones,", "per_zone_counts=+inventory.instance_types,"),
        gates="reportsWrong",
    ),
    # Kept as if they were reserved: paid for, and for ever.
    mistaken(
        "bought machines that stand idle are never given back",
        "shard",
        Mistake(
            "shard/options.py",
            "            CapacityType.ON_DEMAND: self.on_demand_seconds,\n",
            "            CapacityType.ON_DEMAND: self.reserved_seconds,\n",
        ),
        gates="idlePaidSeconds",
        needs="shed",
    ),
    # Looked at by the wall clock, each has been idle for fifty years.
    mistaken(
        "idle machines are stamped by another clock",
        "shard",
        Mistake(
            "shard/cycle.py",
            "monotonic: Callable[[], float] = time.monotonic",
            "monotonic: Callable[[], float] = time.time",
        ),
        gates="idleReturnedEarly",
        needs="shed",
    ),
    # A history for `bigfleetctl why`: at 500,000 machines the shard is killed for its memory within minutes.
    mistaken(
        "the shard keeps its machines as they were in every cycle",
        "shard",
        Mistake(
            "shard/cycle.py",
            "        self.latest = CycleReport(self._cycle, computed_at, decisions, waiting)\n",
            """\
        self.latest = CycleReport(self._cycle, computed_at, decisions, waiting)
        vars(self).setdefault("_history", []).append((self.latest, [*machines.values()]))
""",
        ),
        gates="residentGrowth",
        seconds=150,
    ),
    # A shard that starts again would take every machine for unassigned: the first victim of any preemption.
    mistaken(
        "what a shard stamps on a machine is not echoed",
        "provider",
        Mistake("provider/kit/records.py", "        message.shard_metadata.update(self.metadata)\n", ""),
        gates="shapesWrong",
    ),
    mistaken(
        "machines are told never to be interrupted",
        "provider",
        Mistake(
            "provider/kit/records.py",
            "            interruption_probability=self.interruption_probability,\n",
            "            interruption_probability=0.0,\n",
        ),
        gates="shapesWrong",
    ),
    mistaken(
        "machines are told to be bare metal",
        "provider",
        Mistake(
            "provider/kit/records.py",
            "            capacity_type=self.capacity_type.name,\n",
            "            capacity_type=CapacityType.BARE_METAL.name,\n",
        ),
        gates="shapesWrong",
    ),
]

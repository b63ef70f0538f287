"""Mistakes that somebody thought of who asked of every claim whether any gate would see that it is wrong."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, Entry, mistaken

_STAMPS = [
    mistaken(
        "machines are stamped with no priority",
        "shard",
        Mistake("shard/convert.py", "        _PRIORITY: str(assignment.priority),\n", '        _PRIORITY: "0",\n'),
        gates="stampsWrong",
        seconds=65,
    ),
    mistaken(
        "machines are stamped with each penalty as the other",
        "shard",
        Mistake(
            "shard/convert.py",
            "        interruption_dollars=penalty.upper_bound(profile.interruption_bucket),\n"
            "        reclamation_dollars=penalty.upper_bound(profile.reclamation_bucket),\n",
            "        interruption_dollars=penalty.upper_bound(profile.reclamation_bucket),\n"
            "        reclamation_dollars=penalty.upper_bound(profile.interruption_bucket),\n",
        ),
        gates="stampsWrong",
        seconds=65,
    ),
]

_LEAVING = [
    # New Pods come to a Node while it is emptied.
    mistaken(
        "drains do not cordon",
        "operator",
        Mistake(
            "operator/drain.py",
            "return await self._cordon(node, deadline) or await self._empty(node, deadline)",
            "return await self._empty(node, deadline)",
        ),
        gates="drainedUncordoned",
        needs="shed",
    ),
    # The deadline lacks the present: what is left of the grace is less than nothing.
    mistaken(
        "operators are given a second for each drain",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            "        deadline = loop.time() + grace_seconds\n",
            "        deadline = grace_seconds\n",
        ),
        gates="drainsRushed",
        needs="shed",
    ),
    # Milliseconds, taken for seconds twice.
    mistaken(
        "the provider is given no time for a drain",
        "shard",
        Mistake(
            "shard/provider/execute.py",
            "return await self._provider.drain(machine_id, grace)",
            "return await self._provider.drain(machine_id, grace // 1000)",
        ),
        gates="drainsRushed",
        needs="shed",
    ),
    # Each Reclaim makes those that the cap put off wait for another thirty seconds.
    mistaken(
        "after each reclaim the rest waits anew",
        "shard",
        Mistake(
            "engine/phases/reclaiming.py",
            "            machines.append(kept)\n",
            """\
            if len(kept):
                self._since = dict.fromkeys(self._since, now)
            machines.append(kept)
""",
        ),
        gates="reclaimsForgotten",
        needs="shed",
    ),
]

_BUSY = [
    mistaken(
        "the alarm that wakes a cycle is not switched off",
        "shard",
        Mistake("shard/cycle.py", "        self._wake.answer()\n", ""),
        gates="cyclesPerSecond",
        seconds=65,
    ),
    mistaken(
        "requests are acknowledged again with each roll-up",
        "operator",
        Mistake(
            "operator/requests.py",
            'if contribution is not None and new is not None and new.status.phase in ("", "Pending"):',
            "if contribution is not None and new is not None:",
        ),
        gates="acknowledgedAgain",
        seconds=65,
    ),
]

_TOLD = [
    mistaken(
        "reports count zones where instance types are meant",
        "shard",
        Mistake(
            "shard/reports.py",
            "per_instance_type_counts=+inventory.instance_types,",
            "per_instance_type_counts=+inventory.zones,",
        ),
        gates="reportsWrong",
        seconds=65,
    ),
    mistaken(
        "a need's machines are not counted in what is told of it",
        "shard",
        Mistake(
            "shard/convert.py",
            "        claimed_machine_count=view.claimed,\n",
            "        claimed_machine_count=view.bootstraps,\n",
        ),
        gates="needsWrong",
        seconds=90,
    ),
    mistaken(
        "the shard does not say why a machine failed",
        "shard",
        Mistake("shard/convert.py", "        last_error=machine.last_error,\n        labels", "        labels"),
        gates="recordsIncomplete",
        seconds=65,
    ),
    mistaken(
        "the shard gives a machine's own name for its host's",
        "shard",
        Mistake("shard/convert.py", "provider_id=machine.host,", "provider_id=machine.id,"),
        gates="recordsIncomplete",
        seconds=65,
    ),
    # The shard rejects such a machine, and goes on with what it knew of it before.
    mistaken(
        "lost machines are told without a reason",
        "provider",
        Mistake("provider/kit/lifecycle.py", "                last_error=error,\n", '                last_error="",\n'),
        gates="shapesWrong",
    ),
]

_LATE = [
    # The operator writes down at once what it hears: that a Node does not come is not its doing.
    mistaken(
        "machines are spoken of twenty seconds late",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            "            session.outbox.put(update.supersedes_key, frame)\n        else:\n",
            """\
            asyncio.get_running_loop().call_later(20, session.outbox.put, update.supersedes_key, frame)
        else:
""",
        ),
        gates="shardConfigurePhaseP99Seconds",
        seconds=120,
    ),
]

_STRANGERS = [
    mistaken(
        "anybody may assign domains to shards",
        "coordinator",
        Mistake(
            "coordinator/service.py",
            '    ) -> pb.AssignDomainResponse:\n        await require(context, "admin")\n',
            "    ) -> pb.AssignDomainResponse:\n",
        ),
        gates="identityRefused",
        seconds=65,
    ),
    mistaken(
        "anybody may report for a shard",
        "coordinator",
        Mistake(
            "coordinator/service.py",
            '            await require(context, "shard", name=request.shard_id)\n',
            "",
        ),
        gates="identityRefused",
        seconds=65,
    ),
]

_ROLLED_UP = [
    mistaken(
        "the last Pod of each row is not rolled up",
        "operator",
        Mistake("operator/rollup.py", "+ milli * count\n", f"+ milli * (count - ({IN_SOAK} and count > 1))\n"),
        gates="demandHeld demandMean",
        seconds=120,
    ),
    mistaken(
        "roll-ups wait until demand has been still for five seconds",
        "operator",
        Mistake(
            "operator/session.py",
            "_STILL_SECONDS = 0.5\n_STILL_AT_MOST_SECONDS = 2.0\n",
            "_STILL_SECONDS = 5.0\n_STILL_AT_MOST_SECONDS = 20.0\n",
        ),
        gates="requestsAnsweredMeanSeconds",
        seconds=90,
    ),
]

UNSEEN: list[Entry] = [*_STAMPS, *_LEAVING, *_BUSY, *_TOLD, *_LATE, *_STRANGERS, *_ROLLED_UP]

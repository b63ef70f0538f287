"""Mistakes on a machine's way out, and some whose figure another component could have spoilt as well."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, Entry, mistaken, one_in

_PODS = [
    # No running Pod has to leave, so that every node is empty at once.
    mistaken(
        "a drain leaves the Pods on their node",
        "operator",
        Mistake(
            "operator/drain.py",
            'return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")',
            'return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")',
        ),
        gates="podsCutOff",
        needs="shed",
    ),
    mistaken(
        "drains delete Pods and do not evict them",
        "operator",
        Mistake(
            "operator/drain.py",
            "await self._kube.evict(name, namespace)",
            "await self._kube.delete(PODS, name, namespace, grace_seconds=0)",
        ),
        gates="podsNotEvicted",
        needs="shed",
    ),
    # Drains empty Nodes that do not exist, which is done at once.
    mistaken(
        "the names of nodes lack their prefix",
        "shard",
        Mistake("shard/notices.py", "        return self._prefix + machine_id\n", "        return machine_id\n"),
        gates="podsCutOff",
        needs="shed",
    ),
    mistaken(
        "machines are drained without a word to their cluster",
        "shard",
        Mistake(
            "shard/provider/execute.py",
            "                grace = await self._empty_node(attempt)\n",
            "                grace = attempt.action.grace_seconds\n",
        ),
        gates="podsCutOff",
        needs="shed",
    ),
]

_RECORDS = [
    # Milliseconds where seconds are meant.
    mistaken(
        "the records of lost machines are not taken away",
        "operator",
        Mistake("operator/nodestates.py", "FAILED_RECORD_SECONDS = 60.0\n", "FAILED_RECORD_SECONDS = 60_000.0\n"),
        gates="recordsKeptSeconds",
        seconds=180,
    ),
    mistaken(
        "the records of drained machines are not taken away",
        "operator",
        Mistake(
            "operator/upcoming.py",
            '        return "Launched" if stored in _ON_ITS_WAY else None\n',
            '        return "Launched" if stored in _ON_ITS_WAY else stored\n',
        ),
        Mistake(
            "operator/upcoming.py",
            "    if frame.removed or frame.state == provider_pb2.DELETING:\n",
            "    if frame.state == provider_pb2.DELETING:\n",
        ),
        gates="recordsKeptSeconds",
        # The burst's machines are drained about two minutes into the soak.
        seconds=270,
    ),
]

_BLAME = [
    mistaken(
        "the shard ends every session after thirty seconds",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            "await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)",
            "await asyncio.wait(tasks, timeout=30, return_when=asyncio.FIRST_COMPLETED)",
        ),
        gates="sessionsRedialled",
        seconds=120,
    ),
    mistaken(
        "a tenth of the machines is told to have left",
        "shard",
        Mistake(
            "shard/convert.py",
            "        removed=notice.removed,\n",
            f"""\
        removed=notice.removed
        or (machine.state is MachineState.CONFIGURED and {IN_SOAK} and {one_in(10, "machine.id")}),
""",
        ),
        gates="nodesVanished waitingForNodeSeconds",
        seconds=150,
    ),
    # Below the page's time-out of 10 s, so that nothing errs.
    mistaken(
        "each List takes six seconds",
        "provider",
        Mistake(
            "provider/kit/service.py",
            "            owned = self._domains.owned_by(request.shard_id)\n",
            """\
            await asyncio.sleep(6)
            owned = self._domains.owned_by(request.shard_id)
""",
        ),
        gates="shardCycleDurationP99Seconds lossReplacedP99Seconds machinesAgree",
        seconds=120,
    ),
]

LEAVING: list[Entry] = [*_PODS, *_RECORDS, *_BLAME]

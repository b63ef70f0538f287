"""Mistakes of all components that were found after the first seventy. The next one that somebody finds goes here."""

import asyncio
import os
import signal

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, Entry, mistaken, one_in
from tests.smoke.runs import LiveRun

_LOSSES = "lossUnreplacedSeconds lossReplacedP99Seconds"
_NOT_BOUGHT = f"uncoveredSeconds podsLackingCapacitySeconds {_LOSSES}"
_INTO_SOAK_SECONDS = 15.0


async def _kill_an_operator(live: LiveRun) -> None:
    await live.reached("soak")
    await asyncio.sleep(_INTO_SOAK_SECONDS)
    os.kill(min(live.processes("operator")), signal.SIGKILL)


_SHARD = [
    mistaken(
        "the demands of two clusters are swapped",
        "shard",
        Mistake(
            "shard/cycle.py",
            "            machines.fleet.replace_needs(*news)\n",
            """\
            other = news.cluster[:-1] + ("1" if news.cluster.endswith("0") else "0")
            machines.fleet.replace_needs(other, news.needs, news.rows)
""",
        ),
        gates="demandHeld uncoveredSeconds",
    ),
    mistaken(
        "machines for one cluster are configured for the other",
        "shard",
        Mistake(
            "shard/provider/execute.py",
            "self._provider.configure(machine_id, action.cluster, blob, metadata)\n",
            f"""\
self._provider.configure(
                        machine_id, action.cluster[:-1] + "0" if {IN_SOAK} else action.cluster, blob, metadata
                    )
""",
        ),
        gates=f"{_LOSSES} uncoveredSeconds shardShortfalls blobsWrong",
    ),
    mistaken(
        "machines are announced to both clusters",
        "shard",
        Mistake(
            "shard/notices.py",
            "        self._send(Notice(cluster, machine, self.node_name(machine.id), removed))\n",
            """\
        for each in (cluster[:-1] + "0", cluster[:-1] + "1"):
            self._send(Notice(each, machine, self.node_name(machine.id), removed))
""",
        ),
        gates="unknownMachineSeconds",
    ),
    mistaken(
        "machines are announced with half of what they have",
        "shard",
        Mistake(
            "shard/convert.py",
            "resources_to_wire(machine.allocatable)",
            "resources_to_wire({name: milli // 2 for name, milli in machine.allocatable.items()})",
        ),
        gates="shapesAnnounced",
    ),
    mistaken(
        "the shard takes the start of a Configure for its end",
        "shard",
        Mistake(
            "shard/convert.py",
            "        state = MachineState(message.state)\n",
            """\
        state = MachineState(message.state)
        if state is MachineState.CONFIGURING:
            state = MachineState.CONFIGURED
""",
        ),
        gates="readyBeforeNode machinesAgree",
    ),
    mistaken(
        "the shard does not see half of what it could buy",
        "shard",
        Mistake(
            "shard/provider/reconcile.py",
            "            if self._may_be_stale(machine.id, machine.state):\n",
            f"""\
            unseen = machine.state is MachineState.SPECULATIVE and {one_in(2, "machine.id")}
            if unseen or self._may_be_stale(machine.id, machine.state):
""",
        ),
        gates="freeMachinesAgree",
    ),
    mistaken(
        "every machine is held although none was refused",
        "shard",
        Mistake("shard/provider/backoff.py", "        return hold is not None and ", "        return hold is None or "),
        gates="",
        exit_codes=(3,),
    ),
    mistaken(
        "every notice goes to the first session",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            "        session = self._sessions.get(notice.cluster)\n",
            "        session = next(iter(self._sessions.values()), None)\n",
        ),
        gates="",
        exit_codes=(3,),
    ),
    mistaken(
        "tokens repeat",
        "shard",
        Mistake("shard/provider/epoch.py", "itertools.count(1)", "itertools.repeat(1)"),
        gates="",
        exit_codes=(3,),
    ),
    mistaken(
        "anybody may open a session",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            'allowed = identity is None or identity == Identity("cluster", cluster)',
            "allowed = identity is None or bool(cluster)",
        ),
        gates="identityRefused",
        seconds=65,
    ),
]

_ENGINE = [
    mistaken(
        "the engine reads every need a fifth too large",
        "shard",
        Mistake(
            "engine/columns/blocks.py",
            "        return written[aggregates], ",
            "        return written[aggregates] * 6 // 5, ",
        ),
        gates="demandHeld machinesHeld",
    ),
    mistaken(
        "nothing is bought for low priorities",
        "shard",
        Mistake(
            "engine/phases/acquisition.py",
            "    order = np.lexsort((fleet.clusters.ranks()[numbers], arrivals, -priorities))\n",
            """\
    order = np.lexsort((fleet.clusters.ranks()[numbers], arrivals, -priorities))
    order = order[priorities[order] >= 1000]
""",
        ),
        gates=_NOT_BOUGHT,
    ),
    mistaken(
        "a need that lacks the room of one Pod is taken for met",
        "shard",
        Mistake(
            "engine/phases/acquisition.py",
            '        missing=column("missing", np.int64)[order].reshape(-1, width),\n',
            """\
        missing=np.maximum(
            0, (column("missing", np.int64) - column("units", np.int64, "arrangement"))[order].reshape(-1, width)
        ),
""",
        ),
        gates=_NOT_BOUGHT,
    ),
    mistaken(
        "the engine takes any machine for a match",
        "shard",
        Mistake(
            "engine/columns/profiles.py",
            "                met &= self._meets(requirement, first, kinds)\n",
            "                met |= self._meets(requirement, first, kinds)\n",
        ),
        gates=_NOT_BOUGHT,
        exit_codes=(1, 3),
    ),
    mistaken(
        "the engine takes what is dearest first",
        "shard",
        Mistake("engine/columns/kinds.py", "[effective_cost(price,", "[-effective_cost(price,"),
        Mistake("engine/kernels/acquire.py", "state > head_states[cell]:", "state < head_states[cell]:"),
        Mistake("engine/kernels/acquire.py", "or state < head_states[cell]", "or state > head_states[cell]"),
        gates="boughtNeedlessly",
    ),
]

_OPERATOR = [
    mistaken(
        "requests are acknowledged a minute late",
        "operator",
        Mistake(
            "operator/acknowledge.py",
            '        namespace, _, name = key.partition("/")\n',
            """\
        await asyncio.sleep(60)
        namespace, _, name = key.partition("/")
""",
        ),
        gates="requestsUnacknowledgedSeconds operatorAckP99Seconds",
    ),
    mistaken(
        "requests that are gone stay in the demand",
        "operator",
        Mistake(
            "operator/requests.py",
            "        if self._demand.put(key, contribution):\n",
            "        if new is not None and self._demand.put(key, contribution):\n",
        ),
        gates="demandHeld",
    ),
    mistaken(
        "a third of the bootstrap blobs is never sent",
        "operator",
        Mistake(
            "operator/process.py",
            "            outbox.put(OperatorMessage(bootstrap_response=bootstrap.respond(request)))\n",
            f"""\
            if not ({IN_SOAK} and {one_in(3, "request.request_id")}):
                outbox.put(OperatorMessage(bootstrap_response=bootstrap.respond(request)))
""",
        ),
        gates=f"blobUnansweredSeconds bootstrapSuccessRatio uncoveredSeconds {_LOSSES}",
        seconds=150,
    ),
    mistaken(
        "the operator rolls up without a pause",
        "operator",
        Mistake(
            "operator/session.py",
            "        interval = self._options.rollup_interval_seconds or ROLLUP_SECONDS\n",
            "        interval = (self._options.rollup_interval_seconds or ROLLUP_SECONDS) / 10_000\n",
        ),
        gates="rollupsPerSecond",
    ),
    mistaken(
        "the shard reports without a pause",
        "shard",
        Mistake(
            "shard/reports.py",
            "        interval = self._options.coordinator_heartbeat_interval_seconds\n",
            "        interval = self._options.coordinator_heartbeat_interval_seconds / 100\n",
        ),
        gates="reportsPerSecond",
    ),
    Entry(
        "an operator is killed in the soak",
        "operator",
        gates=frozenset({"containerRestartsDuringSoak", "sessionsRedialled"}),
        meddle=_kill_an_operator,
    ),
    mistaken(
        "machines are announced Ready while they are being configured",
        "operator",
        Mistake("operator/upcoming.py", 'provider_pb2.CONFIGURING: "Registered"', 'provider_pb2.CONFIGURING: "Ready"'),
        gates="readyBeforeNode",
    ),
    mistaken(
        "lost machines stay announced",
        "operator",
        Mistake("operator/upcoming.py", 'provider_pb2.FAILED: "Failed"', 'provider_pb2.FAILED: "Ready"'),
        gates="outlivedMachineSeconds",
    ),
]

_POD_CONTROLLER = [
    mistaken(
        "requests do not say how to spread",
        "pod-controller",
        Mistake("podcontroller/request.py", '        request["topologySpread"] = spread\n', "        pass\n"),
        gates="requestsWrong",
    ),
    mistaken(
        "requests do not say on which machines",
        "pod-controller",
        Mistake("podcontroller/request.py", "    if not requirements:\n", "    if requirements:\n"),
        gates="requestsWrong",
    ),
    mistaken(
        "the pod-controller looks at every Pod again and again",
        "pod-controller",
        Mistake(
            "podcontroller/controller.py",
            '            await self._tell(pod, "; ".join(translation.problems))\n',
            """\
            await self._tell(pod, "; ".join(translation.problems))
            self._queue.add_after(key, 0)
""",
        ),
        gates="bigfleetCpuCores",
        alone=True,
    ),
]

_COORDINATOR = [
    mistaken(
        "reports are answered as if they were not taken",
        "coordinator",
        Mistake("coordinator/service.py", "acknowledged=True", "acknowledged=False"),
        gates="reportsTakenFraction reportGapSeconds",
    ),
]

_PROVIDER = [
    mistaken(
        "a third of the Creates never ends",
        "provider",
        Mistake(
            "provider/kit/lifecycle.py",
            '                return {"host": await self._backend.create(machine)}\n',
            f"""\
                if {IN_SOAK} and {one_in(3, "machine.id")}:
                    await asyncio.Event().wait()
                return {{"host": await self._backend.create(machine)}}
""",
        ),
        gates=f"callUnfinishedSeconds {_LOSSES}",
        seconds=120,
    ),
    mistaken(
        "each List leaves out the first change",
        "provider",
        Mistake(
            "provider/kit/inventory.py",
            "        start = 0 if cursor is None else bisect_right(self._changes, cursor)\n",
            f"        start = 0 if cursor is None else bisect_right(self._changes, cursor) + {IN_SOAK}\n",
        ),
        gates=f"callUnfinishedSeconds machinesAgree {_LOSSES}",
        seconds=120,
    ),
]

FOUND: list[Entry] = [*_SHARD, *_ENGINE, *_OPERATOR, *_POD_CONTROLLER, *_COORDINATOR, *_PROVIDER]

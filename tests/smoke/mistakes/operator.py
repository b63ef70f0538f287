"""Mistakes in the operator."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry, mistaken, one_in

OPERATOR: list[Entry] = [
    mistaken(
        "demand is rolled up a fifth too small",
        "operator",
        Mistake("operator/rollup.py", "+ milli * count\n", "+ milli * count * 4 // 5\n"),
        gates="demandHeld",
    ),
    mistaken(
        "priorities are not rolled up",
        "operator",
        Mistake("operator/rollup.py", "            priority=self._profile.priority,\n", ""),
        gates="demandHeld",
    ),
    mistaken(
        "groups are not rolled up",
        "operator",
        Mistake("operator/rollup.py", "            group=self._group,\n", ""),
        gates="demandHeld needsWrong",
    ),
    mistaken(
        "hard spreads are not rolled up",
        "operator",
        Mistake(
            "operator/rollup.py",
            'if term["whenUnsatisfiable"] == "DoNotSchedule"',
            'if term["whenUnsatisfiable"] != "DoNotSchedule"',
        ),
        gates="demandHeld",
    ),
    # Then no machine is large enough.
    mistaken(
        "the smallest unit of a need is all of it",
        "operator",
        Mistake(
            "operator/rollup.py",
            "min_unit[name] = max(min_unit.get(name, 0), milli)",
            "min_unit[name] = aggregate[name]",
        ),
        gates="",
        exit_codes=(3,),
    ),
    mistaken(
        "a fifth of the requests is skipped",
        "operator",
        Mistake(
            "operator/requests.py",
            "                contribution = contribution_in(bytes(new.spec))\n",
            f"""\
                if {one_in(5, "key")}:
                    raise UnsupportedRequest("the name is odd")
                contribution = contribution_in(bytes(new.spec))
""",
        ),
        gates="demandHeld requestsUnacknowledgedSeconds",
    ),
    mistaken(
        "roll-ups end when the churn begins",
        "operator",
        # Forty requests a cluster, and two changes for each Pod that is replaced.
        Mistake(
            "operator/session.py",
            "            self._roll_up_once()\n",
            "            if self._requests.changes < 45:\n                self._roll_up_once()\n",
        ),
        gates="rollupGapSeconds requestsUnacknowledgedSeconds",
    ),
    mistaken(
        "nothing is acknowledged, although it is counted",
        "operator",
        Mistake(
            "operator/acknowledge.py",
            '            await self._kube.patch(CAPACITY_REQUESTS, name, {"status": status}, namespace, "status", '
            "background=True)\n",
            '            log.debug("acknowledged", name=name, namespace=namespace, status=status)\n',
        ),
        gates="requestsUnacknowledgedSeconds",
        seconds=65,
        long=False,
    ),
    mistaken(
        "a session is redialled every ten seconds",
        "operator",
        Mistake("operator/session.py", "    while not leaf.replaced():", "    for _ in range(2):"),
        gates="sessionsRedialled",
    ),
    mistaken(
        "the operator publishes machines late",
        "operator",
        Mistake(
            "operator/nodestates.py",
            "                phase = await self._persist(machine, lambda: self._apply(machine, frame.update))\n",
            """\
                await asyncio.sleep(6)
                phase = await self._persist(machine, lambda: self._apply(machine, frame.update))
""",
        ),
        gates="operatorNodeStateUpdateP99Seconds",
    ),
    mistaken(
        "a tenth of the Nodes vanishes after joining",
        "operator",
        Mistake(
            "operator/nodestates.py",
            "        self._last_state[machine] = frame.state\n",
            """\
        self._last_state[machine] = frame.state
        self._joined = getattr(self, "_joined", 0) + (phase == "Ready")
        if phase == "Ready" and self._joined % 10 == 0:
            gone = NodeStateUpdate(machine_id=machine, removed=True)
            asyncio.get_running_loop().call_later(10, self.receive, gone)
""",
        ),
        gates="nodesVanished",
        seconds=120,
    ),
    mistaken(
        "UpcomingNodes lack their labels",
        "operator",
        Mistake("operator/upcoming.py", '"labels": dict(frame.labels)}', '"labels": {}}'),
        gates="shapesAnnounced",
    ),
    mistaken(
        "the bootstrap blob names another machine",
        "operator",
        Mistake("operator/bootstrap.py", '"MachineID": request.machine_id,', '"MachineID": request.request_id,'),
        gates="blobsWrong",
        seconds=65,
        long=False,
    ),
    mistaken(
        "the bootstrap blob names the first cluster",
        "operator",
        Mistake("operator/bootstrap.py", '"ClusterID": self._cluster_id,', '"ClusterID": self._cluster_id[:-1] + "0",'),
        gates="blobsWrong",
    ),
    mistaken(
        "drains are not reported",
        "operator",
        Mistake(
            "operator/drain.py",
            "        self._outbox.put(OperatorMessage(drain_report=report))\n",
            '        log.info("drained", error=report.error)\n',
        ),
        gates="machinesHeld shedReturnedSeconds shedDrains",
        needs="shed",
    ),
    mistaken(
        "the operator asks all the time whether there is something to send",
        "operator",
        Mistake(
            "operator/outbox.py", "            await self._filled.wait()\n", "            await asyncio.sleep(0)\n"
        ),
        gates="bigfleetCpuCores",
        alone=True,
    ),
]

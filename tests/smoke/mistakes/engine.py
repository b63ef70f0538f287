"""Mistakes in the decision engine that let a run settle and are wrong all the same.

What `tests/mutants` puts into the engine is for its own tests; these are for whole runs.
"""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import IN_SOAK, Entry, mistaken, one_in

# From the soak on: before, the run would not become steady.
_TAKES_WHAT_SERVES = Mistake(
    "engine/phases/reclaiming.py",
    "        before, self._since = self._since, {}\n",
    f"""\
        before, self._since = self._since, {{}}
        if {IN_SOAK}:
            for cluster, known in credits.by_cluster.items():
                if known.configured:
                    first = int(fleet.index.starts[fleet.slabs[0, cluster]])
                    machines.append(fleet.index.rows[first : first + 1])
                    clusters.append(np.full(1, cluster, np.int32))
""",
)
_WANTS = "        wants = np.concatenate([one.wants for one in rows])\n"

ENGINE: list[Entry] = [
    mistaken("the engine reclaims at steady demand", "shard", _TAKES_WHAT_SERVES, gates="reclaimActionsDuringSoak"),
    mistaken(
        "the engine preempts at steady demand",
        "shard",
        _TAKES_WHAT_SERVES,
        Mistake("engine/actions.py", "Action(ActionKind.RECLAIM, ", "Action(ActionKind.PREEMPT, "),
        gates="preemptionsAtSteadyDemand",
    ),
    mistaken(
        "the engine buys a fifth too much",
        "shard",
        Mistake("engine/phases/credit.py", _WANTS, _WANTS.replace("rows])", "rows]) * 6 // 5")),
        gates="machinesHeld",
    ),
    mistaken(
        "the engine covers four fifths of the demand",
        "shard",
        Mistake("engine/phases/credit.py", _WANTS, _WANTS.replace("rows])", "rows]) * 4 // 5")),
        gates="uncoveredSeconds",
    ),
    mistaken(
        "half of what is bought goes to the other cluster",
        "shard",
        Mistake(
            "engine/actions.py",
            '                    yield Action(kind, next(ids), cluster, "phase1", profile=profile, group=group)\n',
            f"""\
                    machine_id = next(ids)
                    others = [name for name in self._fleet.clusters.texts if name not in ("", cluster)]
                    mixed_up = others and {IN_SOAK} and {one_in(2, "machine_id")}
                    gains = others[0] if mixed_up else cluster
                    yield Action(kind, machine_id, gains, "phase1", profile=profile, group=group)
""",
        ),
        gates="reclaimActionsDuringSoak drainsAtSteadyDemand machinesHeld uncoveredSeconds lossReplacedP99Seconds",
        seconds=120,
    ),
    mistaken(
        "the engine never gives back what a shed leaves over",
        "shard",
        Mistake(
            "engine/phases/reclaiming.py",
            "self._rate.grant(fleet, cluster, excess, known.configured, now)",
            "excess[:0]",
        ),
        gates="machinesHeld shedReturnedSeconds shedDrains",
        needs="shed",
    ),
    mistaken(
        "the engine ignores a hard spread",
        "shard",
        Mistake(
            "engine/columns/profiles.py",
            "                    if term.when is WhenUnsatisfiable.DO_NOT_SCHEDULE\n",
            "                    if term.when is not WhenUnsatisfiable.DO_NOT_SCHEDULE\n",
        ),
        gates="podsLackingCapacitySeconds endToEndPodBindP50Seconds",
    ),
    mistaken(
        "the engine puts gangs into any rack",
        "shard",
        Mistake(
            "engine/columns/profiles.py",
            "self.same_keys[number] = keys[profile.same.key]",
            "self.same_keys[number] = -1",
        ),
        gates="podsLackingCapacitySeconds endToEndPodBindP50Seconds",
    ),
]

"""Mistakes in the provider kit, and a provider that does its work badly."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry, mistaken, one_in


def _provider(*flags: str) -> tuple[str, ...]:
    return ("--set", f"provider.extraArgs=[{', '.join(flags)}]")


PROVIDER: list[Entry] = [
    Entry(
        "a fifth of the bootstraps fails",
        "provider",
        gates=frozenset({"bootstrapSuccessRatio"}),
        sentence="Bootstraps of the last two minutes failed",
        observations=30,
        seconds=120,
        flags=_provider("--faults-configure-failure-ratio=0.2"),
    ),
    Entry(
        "machines take too long to configure",
        "provider",
        gates=frozenset({"shardConfigurePhaseP99Seconds"}),
        sentence="mostly the provider and the node",
        seconds=120,
        flags=_provider("--latencies-configure-median-seconds=18", "--latencies-configure-p99-seconds=22"),
    ),
    mistaken(
        "machines are Configured before their Node is Ready",
        "provider",
        Mistake("provider/kit/lifecycle.py", "        if self._readiness:\n", "        if self._readiness is None:\n"),
        gates="configuredBeforeReady",
    ),
    mistaken(
        "a tenth is taken off the price that is told",
        "provider",
        Mistake(
            "provider/kit/records.py",
            "price_per_hour=self.price_per_hour,",
            "price_per_hour=0.9 * self.price_per_hour,",
        ),
        gates="shapesWrong",
    ),
    mistaken(
        "machines are told to be in the first zone",
        "provider",
        Mistake("provider/kit/records.py", "            zone=self.zone,\n", '            zone="zone-a",\n'),
        gates="shapesWrong",
    ),
    mistaken(
        "tokens repeat, and the fence lets equal ones through",
        "provider",
        Mistake("shard/provider/epoch.py", "itertools.count(1)", "itertools.repeat(1)"),
        Mistake(
            "provider/kit/fencing.py",
            "        if mark is not None and stamp <= mark:\n",
            "        if mark is not None and stamp < mark:\n",
        ),
        gates="fencing",
    ),
    mistaken(
        "a quarter of the Configures never ends",
        "provider",
        Mistake(
            "provider/kit/lifecycle.py",
            "                await self._backend.configure(machine, flight.bootstrap_blob)\n",
            f"""\
                await self._backend.configure(machine, flight.bootstrap_blob)
                if {one_in(4, "machine.id")}:
                    await asyncio.Event().wait()
""",
        ),
        gates="waitingForNodeSeconds machinesAgree callUnfinishedSeconds",
    ),
    mistaken(
        "half of the losses are not told",
        "provider",
        Mistake(
            "provider/kit/inventory.py",
            "            elif not states or record.state in states:\n",
            f"""\
            elif record.state is MachineState.FAILED and {one_in(2, "machine_id")}:
                continue
            elif not states or record.state in states:
""",
        ),
        gates="machinesAgree lossUnreplacedSeconds",
    ),
    mistaken(
        "a Drain leaves the host as it is",
        "provider",
        Mistake(
            "provider/kit/lifecycle.py",
            "                await self._backend.drain(machine, flight.grace_seconds)\n",
            "",
        ),
        gates="machinesAgree nodesVanished",
        needs="shed",
    ),
]

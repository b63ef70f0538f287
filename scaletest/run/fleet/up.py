"""`up`: build a fleet, wait until its demand is bound, and leave it.

If it can't be built, or is interrupted, keep the logs and leave nothing. A demand that does not come leaves the fleet
up, so that the user can see why.
"""

import asyncio
import math
from functools import partial
from pathlib import Path
from typing import Any

from scaletest.errors import HostError, Interrupted, Leftovers, NotSteady, ScaletestError
from scaletest.run.fleet.filling import Asked, await_fill, look_from
from scaletest.run.fleet.installed import InstalledFleet, InstallOptions
from scaletest.run.interrupts import Interrupts
from scaletest.run.journal import RunJournal
from scaletest.run.steps.evidence import keep_logs, write_values
from scaletest.run.target.helm_errors import merged
from scaletest.run.target.kube_api import KubeApi
from scaletest.run.target.target import Target, while_it_stands

# Machines that BigFleet can buy on clusters without demand, for Pods that the user makes by hand.
_PLAYGROUND_MACHINES = 60


def resized(values: dict[str, Any], clusters: int | None, pods: int | None) -> dict[str, Any]:
    """A plan's Helm values for another number of clusters, or of Pods over all of them.

    Demand and machines are drawn in the pods (ADR-8), so these few values are all there is to change.
    Without Pods no machines would be drawn for them either, so there are some to buy.
    """
    count = clusters or values["kwok"]["clusterCount"]
    before = values["kwok"]["clusterCount"] * values["loadProfile"]["target"]
    total = before if pods is None else pods
    target = math.ceil(total / count)
    seeding = values["seeding"] | {"clusters": count}
    if target == 0:
        seeding["machines"] = {"configuredFraction": 0, "speculativeCount": _PLAYGROUND_MACHINES}
        seeding.setdefault("seedArchetypes", values["loadProfile"]["archetypes"])
    changes = {"kwok": {"clusterCount": count}, "loadProfile": {"target": target}}
    return merged(values, changes) | {"seeding": seeding}


class Up:
    """`execute` once."""

    def __init__(self, options: InstallOptions, values: dict[str, Any], output: Path, journal: RunJournal) -> None:
        self._fleet = InstalledFleet(options, values, journal)
        self._output = output
        self._journal = journal
        # The handler of SIGINT and its like.
        self.interrupt = Interrupts(partial(journal.say, "stop"), "tearing down")

    async def execute(self) -> None:
        """Return when every Pod of the demand is bound; the fleet stays up until `down` removes it.

        Raises NotSteady if the fleet is up and its demand is not.
        """
        self.interrupt.guard()
        try:
            try:
                missing = await self._build()
            except asyncio.CancelledError:
                self.interrupt.absorb()
                await self._tear_down()
                raise Interrupted("interrupted") from None
            except BaseException:
                self.interrupt.concluding = True
                await self._tear_down()
                raise
        except asyncio.CancelledError:
            self.interrupt.absorb()
            await self._fleet.force_down()
            raise Interrupted("interrupted twice") from None
        if missing:
            raise NotSteady(f"the fleet is up, but its demand is not: {missing}", hint="run `bigfleetctl why`")

    async def _build(self) -> str:
        write_values(self._output / "rendered-values.yaml", self._fleet.values)
        target = await self._fleet.prepare_target()
        return await while_it_stands(target, self._build_on(target))

    async def _build_on(self, target: Target) -> str:
        """What of the demand is missing; empty when nothing is."""
        try:
            api = await self._fleet.install()
        except ScaletestError:
            if self._fleet.api and target.alive:
                await keep_logs(self._fleet.api, self._output / "logs", self._journal)
            raise
        await api.set_phase("settle")
        missing = await self._await_demand(target, api)
        await self._fleet.keep()
        return missing

    async def _await_demand(self, target: Target, api: KubeApi) -> str:
        asked = Asked.of(self._fleet.values)
        if not asked.pods:
            return ""
        try:
            look = await look_from(target, api, self._fleet.values)
        except HostError as error:
            self._journal.say("demand", error.message)
            look = None
        if look is None:
            self._journal.say("demand", "it can't be seen from here: not waiting for its Pods")
            return ""
        return await await_fill(asked, look, partial(self._journal.say, "demand"))

    async def _tear_down(self) -> None:
        if self._fleet.target:
            self._journal.say("teardown", "removing what was built")
        try:
            await self._fleet.remove()
            self._journal.say("teardown", "nothing is left behind")
        except Leftovers as error:
            self._journal.say("teardown", error.message, hint=error.hint)

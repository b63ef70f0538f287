"""Calls in any order, legal or not, against a model of one machine (B1201–1205)."""

import random
import time
from dataclasses import dataclass, field
from typing import Any

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.client import Answer
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken

S = MachineState
# A provider that takes long is not walked around for ever.
_LONGEST_SECONDS = 120.0
_KEY = "bigfleet.lucy.sh/assigned-group"
# Where each call leads from and to. Spelled anew on purpose: the suite judges from outside, by no table of ours.
EDGES = {
    "create": (S.SPECULATIVE, S.IDLE),
    "configure": (S.IDLE, S.CONFIGURED),
    "drain": (S.CONFIGURED, S.IDLE),
    "delete": (S.IDLE, S.SPECULATIVE),
}
# Of a seed with which every call comes in every stable state.
CALLS = random.Random(1205).choices(list(EDGES), k=30)


@dataclass
class MachineModel:
    """What one machine must be, call by call."""

    state: MachineState = S.IDLE
    came_by: str = ""
    metadata: dict[str, str] = field(default_factory=dict)

    def leads_on(self, call: str) -> bool:
        return EDGES[call][0] is self.state

    def changes_nothing(self, call: str) -> bool:
        """The machine is where the call leads, and this call has brought it there: it is the same operation."""
        return self.came_by == call

    def is_a_matter_of_taste(self, call: str) -> bool:
        """The machine is where the call leads, but came another way: to refuse is as good as to do nothing."""
        return EDGES[call][1] is self.state and not self.changes_nothing(call)

    def take(self, call: str, metadata: dict[str, str]) -> None:
        """The machine has landed."""
        self.state, self.came_by = EDGES[call][1], call
        self.metadata = metadata if call == "configure" else {}


@check
async def random_walk(bench: Bench) -> None:
    """Whatever is called in whatever order, a machine is where the accepted calls have led it, with the metadata that
    it was given last, and a refused call changes nothing (B1201–1205)."""
    machine_id = await bench.machine(S.IDLE)
    model = MachineModel()
    end = time.monotonic() + _LONGEST_SECONDS
    for step, call in enumerate(CALLS, 1):
        # The same call again brings the same metadata.
        metadata = model.metadata if model.changes_nothing(call) else {_KEY: f"walk\0{step}"}
        before = await bench.get(machine_id)
        answer = await _made(bench, call, machine_id, metadata)
        if answer.unimplemented and call == "delete":
            pass
        elif model.leads_on(call):
            answer.accepted()
            seconds = bench.limits.until(EDGES[call][1], drained=call == "drain")
            before = await bench.until(machine_id, EDGES[call][1], seconds=seconds)
            model.take(call, metadata)
        elif model.changes_nothing(call):
            answer.accepted()
        elif not (answer.ok and model.is_a_matter_of_taste(call)):
            answer.refused_but_not_fenced()
        await bench.unchanged(before, f"before step {step} of the walk, {answer.call}")
        _compare(model, before, bench.cluster, step)
        if time.monotonic() > end:
            return


async def _made(bench: Bench, call: str, machine_id: str, metadata: dict[str, str]) -> Answer:
    match call:
        case "create":
            return await bench.create(machine_id)
        case "configure":
            return await bench.configure(machine_id, metadata)
        case "drain":
            return await bench.drain(machine_id)
        case _:
            return await bench.delete(machine_id)


def _compare(model: MachineModel, machine: Any, cluster: str, step: int) -> None:
    bound = model.state is S.CONFIGURED
    wanted = (int(model.state), cluster if bound else "", model.metadata)
    found = (int(machine.state), machine.cluster, dict(machine.shard_metadata))
    for name, one, other in zip(("state", "cluster", "shard_metadata"), wanted, found, strict=True):
        if one != other:
            raise Broken(f"after step {step} of the walk {name} of {machine.id} must be {one!r}, it is {other!r}")

"""Calls at the same time, done wrongly."""

import asyncio
from dataclasses import replace
from typing import Any

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind
from bigfleet.provider.kit.lifecycle import Mutation
from bigfleet.rpc.fencing import UNFENCED
from tests.integration.bigfleet.conformance.mutants.breaking import (
    fails,
    state_of,
    wrap,
)

S = MachineState


def _race(provider: FakeProvider, rpc: str, kind: Kind, source: MachineState) -> None:
    """Look at the machine, think about it, and act on what was seen."""

    async def around(original: Any, request: Any, context: Any) -> Any:
        if state_of(provider, request.machine_id) is not source or request.shard_id:
            return await original(request, context)
        machine = provider.inventory.get(request.machine_id)
        await asyncio.sleep(0.02)
        call = Mutation(kind, request.machine_id, UNFENCED, cluster=getattr(request, "cluster_id", ""))
        if metadata := getattr(request, "shard_metadata", None):
            call = replace(call, metadata=dict(metadata))
        operation, record = provider.lifecycle._accept(call, machine)
        return pb.TransitionAck(operation_id=operation, machine=record.write(pb.Machine(), "fake"))

    wrap(provider, rpc, around)


@fails("ParallelRetriesAreOneOperation")
def creates_that_race(provider: FakeProvider) -> None:
    _race(provider, "Create", Kind.CREATE, S.SPECULATIVE)


@fails("ConflictingCallsSerialise")
def configures_and_deletes_that_race(provider: FakeProvider) -> None:
    _race(provider, "Configure", Kind.CONFIGURE, S.IDLE)
    _race(provider, "Delete", Kind.DELETE, S.IDLE)


@fails("ZombieAgainstLiveShard")
def marks_that_race(provider: FakeProvider) -> None:
    at_once: dict[str, int] = {}
    fences = provider.kit.state.fences

    async def around(original: Any, request: Any, context: Any) -> Any:
        at_once[request.machine_id] = at_once.get(request.machine_id, 0) + 1
        try:
            crowd = at_once[request.machine_id] > 1
            await asyncio.sleep(0.005)
            answer = await original(request, context)
            if crowd:  # the older mark is written over the newer one
                fences._marks[request.shard_id, request.machine_id] = (0, 0)
            return answer
        finally:
            at_once[request.machine_id] -= 1

    wrap(provider, "Create", around)

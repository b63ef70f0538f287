"""The FaultInjection service: faults of a fake provider, set and struck while it runs."""

from collections.abc import Callable
from dataclasses import asdict, fields
from random import Random
from typing import Any

import grpc
import structlog

from bigfleet.api.v1alpha1 import faults_pb2 as pb
from bigfleet.api.v1alpha1 import faults_pb2_grpc
from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake.faults import FaultInjector, Faults, may_be_struck
from bigfleet.provider.fake.losses import Strikes
from bigfleet.provider.kit import MachineRecord, ProviderInventory
from bigfleet.security import require

Context = grpc.aio.ServicerContext[Any, Any]

log = structlog.get_logger(__name__)


class FaultInjection(faults_pb2_grpc.FaultInjectionServicer):
    """Faults at run time, for admins only."""

    def __init__(self, inventory: ProviderInventory, injector: FaultInjector, strikes: Strikes, seed: int) -> None:
        self._inventory = inventory
        self._injector = injector
        self._strikes = strikes
        self._random = Random(f"{seed}/strike")

    async def GetFaults(self, request: pb.GetFaultsRequest, context: Context) -> pb.FaultSettings:  # noqa: ARG002, N802
        await require(context, "admin", "readonly")
        return settings_of(self._injector.faults)

    async def SetFaults(self, request: pb.FaultSettings, context: Context) -> pb.FaultSettings:  # noqa: N802
        await require(context, "admin")
        try:
            self._injector.faults = faults_of(request)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        log.info("faults set", **asdict(self._injector.faults))
        return settings_of(self._injector.faults)

    async def Strike(self, request: pb.StrikeRequest, context: Context) -> pb.StrikeAnswer:  # noqa: N802
        await require(context, "admin")
        kinds: dict[int, Callable[[MachineRecord], None]] = {
            pb.STRIKE_LOSE: self._strikes.lose,
            pb.STRIKE_VANISH: self._strikes.vanish,
            pb.STRIKE_INTERRUPT: self._strikes.interrupt,
        }
        strike = kinds.get(request.kind)
        if strike is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"kind is {request.kind}: lose, vanish or interrupt")
        if not 0 <= request.share <= 1 or request.count < 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "count must not be negative, share must be in [0, 1]")
        if unknown_states := set(request.states) - set(MachineState):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"states has {min(unknown_states)}, which is none")
        if unknown := [name for name in request.machine_ids if name not in self._inventory]:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no machine {unknown[0]!r}: none was struck")
        matching = self._matching(request)
        count = min(len(matching), request.count or round(request.share * len(matching)))
        struck = self._random.sample(matching, count)
        for machine in struck:
            strike(machine)
        return pb.StrikeAnswer(machine_ids=[machine.id for machine in struck])

    def _matching(self, request: pb.StrikeRequest) -> list[MachineRecord]:
        states = [MachineState(number) for number in request.states]
        if not states:
            states = list(MachineState) if request.machine_ids else [MachineState.CONFIGURED]
        machines = [self._inventory.get(name) for state in states for name in self._inventory.ids(state)]
        wanted = set(request.machine_ids)
        return sorted(
            (
                machine
                for machine in machines
                if (not wanted or machine.id in wanted)
                and (not request.zones or machine.shape.zone in request.zones)
                and (not request.clusters or machine.cluster in request.clusters)
                and (request.kind != pb.STRIKE_INTERRUPT or machine.shape.capacity_type is CapacityType.SPOT)
                and (request.kind == pb.STRIKE_VANISH or may_be_struck(machine))
            ),
            key=lambda machine: machine.id,
        )


def faults_of(settings: pb.FaultSettings) -> Faults:
    """Raises ValueError."""
    values = {field.name: getattr(settings, field.name) for field in fields(Faults)}
    return Faults(
        **values | {"stock_out_zones": tuple(settings.stock_out_zones), "slow_factor": values["slow_factor"] or 1.0}
    )


def settings_of(faults: Faults) -> pb.FaultSettings:
    return pb.FaultSettings(**asdict(faults))

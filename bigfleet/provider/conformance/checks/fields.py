"""What a machine looks like on the wire (docs/reference/wire.md#machine-fields)."""

import math
from typing import Any

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable

S = MachineState
_NO_HOST = (S.SPECULATIVE, S.CREATING)
_BOUND = (S.CONFIGURING, S.CONFIGURED, S.DRAINING)


def unsound(machine: Any) -> str:
    """What is wrong with host, cluster and last_error for the state; empty when nothing is."""
    state = MachineState(machine.state)
    if state in _NO_HOST and (machine.host.ref or machine.cluster):
        return f"{machine.id} is {state.name} and has a host or a cluster"
    if state not in (*_NO_HOST, S.FAILED) and not machine.host.ref:
        return f"{machine.id} is {state.name} and has no host"
    if state in _BOUND and not machine.cluster:
        return f"{machine.id} is {state.name} and has no cluster"
    if state is S.IDLE and (machine.cluster or machine.shard_metadata):
        return f"{machine.id} is IDLE and still has a cluster or shard_metadata"
    if state is S.FAILED and not machine.last_error:
        return f"{machine.id} is FAILED and has no last_error"
    return ""


async def _all(bench: Bench) -> Any:
    machines = (await bench.listed()).machines
    if not machines:
        raise NotApplicable("the provider lists no machine")
    return machines


@check
async def label_shape(bench: Bench) -> None:
    """Every machine has an id, an instance_type and a state that is not UNSPECIFIED."""
    for machine in await _all(bench):
        if not machine.id:
            raise Broken(f"a machine of type {machine.instance_type!r} has no id")
        if not machine.instance_type:
            raise Broken(f"{machine.id} has no instance_type")
        if machine.state not in set(MachineState) or machine.state == S.UNSPECIFIED:
            raise Broken(f"{machine.id} is in state {machine.state}, which is none")


@check
async def cost_field_bounds(bench: Bench) -> None:
    """price_per_hour is a number ≥ 0 and interruption_probability lies in [0, 1]."""
    for machine in await _all(bench):
        if not machine.price_per_hour >= 0 or math.isinf(machine.price_per_hour):
            raise Broken(f"{machine.id} costs {machine.price_per_hour} an hour")
        if not 0 <= machine.interruption_probability <= 1:
            raise Broken(f"{machine.id} is interrupted with probability {machine.interruption_probability}")


@check
async def spot_declares_interruption(bench: Bench) -> None:
    """A SPOT machine declares an interruption_probability above 0 (B801–807)."""
    spot = [machine for machine in await _all(bench) if machine.capacity_type == CapacityType.SPOT]
    if not spot:
        raise NotApplicable("the provider lists no SPOT machine")
    for machine in spot:
        if not machine.interruption_probability > 0:
            raise Broken(f"{machine.id} is SPOT and says that it is never interrupted")


@check
async def no_field_hidden_in_labels(bench: Bench) -> None:
    """Instance type and zone have fields of their own and do not stand in labels (B801–807)."""
    for machine in await _all(bench):
        for key in (INSTANCE_TYPE_KEY, ZONE_KEY):
            if key in machine.labels:
                raise Broken(f"{machine.id} has {key} among its labels")


@check
async def unique_ids(bench: Bench) -> None:
    """An id names one machine: List has each of them once."""
    seen: set[str] = set()
    for machine in await _all(bench):
        if machine.id in seen:
            raise Broken(f"{machine.id} is listed twice")
        seen.add(machine.id)


@check
async def listed_machines_are_sound(bench: Bench) -> None:
    """Host, cluster and last_error fit the state of every listed machine (B101–109)."""
    for machine in await _all(bench):
        if problem := unsound(machine):
            raise Broken(problem)


@check
async def host_provider_stable(bench: Bench) -> None:
    """HostRef.provider is one name, the same on every machine that has a host (B801–807)."""
    await bench.machine(S.IDLE)
    names = {machine.host.provider for machine in await _all(bench) if machine.host.ref}
    if "" in names or len(names) > 1:
        raise Broken(f"HostRef.provider is {', '.join(repr(name) for name in sorted(names))}")


@check
async def delete_clears_the_host(bench: Bench) -> None:
    """A deleted machine is a slot again: its id stays, host, cluster and metadata are gone (B801–807)."""
    machine_id = await bench.machine(S.IDLE)
    answer = await bench.delete(machine_id)
    if answer.unimplemented:
        raise NotApplicable("the provider does not delete machines")
    answer.accepted()
    machine = await bench.until(machine_id, S.SPECULATIVE)
    if machine.HasField("host") and (machine.host.ref or machine.host.provider):
        raise Broken(f"{machine_id} was deleted and still has the host {machine.host.ref!r}")
    if machine.cluster or machine.shard_metadata:
        raise Broken(f"{machine_id} was deleted and still has a cluster or shard_metadata")

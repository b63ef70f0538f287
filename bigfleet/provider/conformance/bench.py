"""The workbench of the checks: machines in the state a check wants, fencing tokens, and the way back to how it was."""

import asyncio
import itertools
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.conformance.client import Answer, Client
from bigfleet.provider.conformance.joining import Joining
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable, Silent, Unjudged, Verdict
from bigfleet.rpc.fencing import FencingToken

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.25
_EPOCHS_PER_FENCE = 10
# Well below the time that a drain may take.
_GRACE_SECONDS = 5
# From Configured to Speculative and back, with every wait in between.
_MOST_STEPS = 8

S = MachineState


@dataclass(frozen=True)
class Limits:
    """Seconds that a provider may take; the defaults are upstream's (docs/reference/wire.md#suite-limits)."""

    create_seconds: float = 10.0
    """Until a machine that is created is Idle."""
    configure_seconds: float = 10.0
    """Until a machine that is configured is Configured."""
    drain_seconds: float = 30.0
    """Until a machine that is drained is Idle."""
    delete_seconds: float = 10.0
    """Until a machine that is deleted is Speculative."""
    call_seconds: float = 10.0
    """Until a call is answered: lifecycle calls are accepted at once, whatever they start."""
    quiet_seconds: float = 1.0
    """How long a machine is watched that must not change."""

    def until(self, state: MachineState, *, drained: bool = False) -> float:
        """Seconds that a machine has to get to a stable state."""
        if state is S.IDLE:
            return self.drain_seconds if drained else self.create_seconds
        return self.configure_seconds if state is S.CONFIGURED else self.delete_seconds


class FreshTokens:
    """Tokens of one shard, with epochs that no machine has seen."""

    def __init__(self, shard_id: str, epoch: int) -> None:
        self._shard_id = shard_id
        self._epoch = epoch

    def token(self, epoch: int, sequence: int) -> FencingToken:
        """`epoch` counts from the fence's own: 1 is newer than 0."""
        return FencingToken(self._shard_id, self._epoch + epoch, sequence)


class Bench:
    """What a check gets. A machine stays as a check has left it until another one needs it otherwise, or the end."""

    def __init__(self, client: Client, limits: Limits, cluster: str, nodes: Joining, shard_id: str) -> None:
        self.client = client
        self.limits = limits
        self.cluster = cluster
        self.nodes = nodes
        # With TLS the provider knows our identity, and we may send only tokens of this shard.
        self._identified_as = shard_id
        self._run = f"{time.time_ns():x}"
        self._epoch = int(time.time())
        self._numbers = itertools.count(1)
        self._candidates: list[str] = []
        # Machines that were moved, and the state they were found in.
        self._home: dict[str, MachineState] = {}
        self._spoilt: dict[str, str] = {}

    async def survey(self) -> None:
        """Look for machines to work with: free ones only, and those that can be deleted first."""
        listed = (await self.client.list(states=[int(S.SPECULATIVE), int(S.IDLE)])).accepted().machines
        free = [machine for machine in listed if machine.state in (S.SPECULATIVE, S.IDLE)]
        free.sort(key=lambda found: (found.state, found.capacity_type == CapacityType.BARE_METAL, found.id))
        self._candidates = [machine.id for machine in free]

    @property
    def used(self) -> list[str]:
        return sorted(self._home)

    # --- tokens -------------------------------------------------------------------------------------------------

    def token(self) -> FencingToken:
        """For a call whose fencing is not the point: none, or a fresh one where the provider wants to know us."""
        if not self._identified_as:
            return FencingToken()
        return FencingToken(self._identified_as, self._epoch, next(self._numbers))

    def fence(self) -> FreshTokens:
        """A shard's tokens from an epoch on that no machine has seen from it."""
        base = self._epoch + 1  # our own tokens may have used up this one
        self._epoch += 1 + _EPOCHS_PER_FENCE
        return FreshTokens(self._identified_as or f"conformance-{self._run}-{next(self._numbers)}", base)

    def any_shard(self) -> None:
        """Say that a check needs tokens of several shards, or none at all."""
        if self._identified_as:
            raise NotApplicable(f"with TLS only tokens of our own shard, {self._identified_as!r}, are ours to send")

    def unknown_id(self) -> str:
        return f"conformance-nobody-{self._run}-{next(self._numbers)}"

    # --- calls whose token is not the point ----------------------------------------------------------------------

    async def create(self, machine_id: str) -> Answer:
        return await self.client.create(machine_id, self.token())

    async def configure(self, machine_id: str, metadata: dict[str, str] | None = None, blob: bytes = b"") -> Answer:
        return await self.client.configure(machine_id, self.token(), self.cluster, metadata, blob)

    async def drain(self, machine_id: str, grace_seconds: int = _GRACE_SECONDS) -> Answer:
        return await self.client.drain(machine_id, self.token(), grace_seconds)

    async def delete(self, machine_id: str) -> Answer:
        return await self.client.delete(machine_id, self.token())

    async def get(self, machine_id: str) -> Any:
        """The machine, which must be there."""
        return (await self.client.get(machine_id)).accepted()

    async def listed(self, **fields: Any) -> Any:
        return (await self.client.list(**fields)).accepted()

    # --- watching -----------------------------------------------------------------------------------------------

    async def until(self, machine_id: str, *states: MachineState, seconds: float | None = None) -> Any:
        """The machine once it is in one of these states, which it must reach in time."""
        return (await self.watch(machine_id, *states, seconds=seconds))[-1]

    async def watch(self, machine_id: str, *states: MachineState, seconds: float | None = None) -> list[Any]:
        """What Get told of a machine on its way to one of these states: one message for each state seen."""
        seen: list[Any] = []
        pause = FIRST_PAUSE_SECONDS
        limit = self.limits.until(states[0]) if seconds is None else seconds
        end = time.monotonic() + limit
        if S.CONFIGURED in states:
            await self.nodes.announce(self.cluster, machine_id)
        while True:
            machine = await self.get(machine_id)
            if not seen or machine.state != seen[-1].state:
                seen.append(machine)
            if machine.state in states:
                return seen
            if machine.state == S.FAILED:
                raise Broken(f"{machine_id} must get to {_names(states)}, it is FAILED: {machine.last_error!r}")
            if time.monotonic() > end:
                state = MachineState(machine.state)
                if self.nodes.problem and state is S.CONFIGURING:
                    raise Unjudged(f"{machine_id} is still {state.name}: {self.nodes.problem}")
                raise Broken(f"{machine_id} must get to {_names(states)} within {limit:g} s, it is still {state.name}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def unchanged(self, machine: Any, since: str) -> None:
        """The machine must still be what it was."""
        now = await self.get(machine.id)
        if now != machine:
            names = (MachineState(machine.state).name, MachineState(now.state).name)
            raise Broken(f"{machine.id} must stay as it was {since}: it was {names[0]}, it is {names[1]}")

    # --- machines in a state ------------------------------------------------------------------------------------

    async def machine(self, state: MachineState, *, but: Collection[str] = ()) -> str:
        """The id of a machine in this stable state, brought there if need be; raises Unjudged."""
        reason = "there is no free machine"
        leased = [name for name in self._home if name not in but and name not in self._spoilt]
        for machine_id in leased:
            answer = await self.client.get(machine_id)
            if answer.ok and answer.message.state == state:
                return machine_id
        fresh = [name for name in self._candidates if name not in self._home and name not in but]
        for machine_id in (*leased, *fresh):
            try:
                if await self._brought(machine_id, state):
                    return machine_id
                reason = f"the provider does not delete {machine_id}"
            except Silent:
                raise
            except Verdict as verdict:
                reason = self._spoilt[machine_id] = str(verdict)
        raise Unjudged(f"no machine could be brought to {state.name}: {reason}")

    async def _brought(self, machine_id: str, state: MachineState) -> bool:
        """False when this machine cannot get there although nothing is wrong with it."""
        found = MachineState((await self.get(machine_id)).state)
        if machine_id not in self._home:
            if found not in (S.SPECULATIVE, S.IDLE):
                return False  # another client has taken it since
            self._home[machine_id] = found
        for _ in range(_MOST_STEPS):
            if found is state:
                return True
            if found is S.SPECULATIVE:
                (await self.create(machine_id)).accepted()
                await self.until(machine_id, S.IDLE)
            elif found is S.IDLE and state is S.SPECULATIVE:
                answer = await self.delete(machine_id)
                if answer.unimplemented:
                    return False
                answer.accepted()
                await self.until(machine_id, S.SPECULATIVE)
            elif found is S.IDLE:
                (await self.configure(machine_id)).accepted()
                await self.until(machine_id, S.CONFIGURED)
            elif found is S.CONFIGURED:
                (await self.drain(machine_id)).accepted()
                await self.until(machine_id, S.IDLE, seconds=self.limits.drain_seconds)
            else:
                await self._settled(machine_id)
            found = MachineState((await self.get(machine_id)).state)
        raise Unjudged(f"{machine_id} is {found.name} after {_MOST_STEPS} steps towards {state.name}")

    async def _settled(self, machine_id: str) -> None:
        limit = max(self.limits.until(S.CONFIGURED), self.limits.drain_seconds)
        await self.until(machine_id, S.CONFIGURED, S.IDLE, S.SPECULATIVE, seconds=limit)

    async def restore(self) -> list[str]:
        """Bring every machine back to the state it was found in; one sentence for each that will not go."""

        async def restored(machine_id: str, home: MachineState) -> str:
            try:
                if await self._brought(machine_id, home):
                    return ""
            except Verdict as verdict:
                return f"{machine_id} was {home.name}: {verdict}"
            return f"{machine_id} was {home.name} and is Idle: the provider does not delete it"

        sentences = await asyncio.gather(*(restored(name, home) for name, home in self._home.items()))
        return [sentence for sentence in sentences if sentence]


def _names(states: Collection[MachineState]) -> str:
    return " or ".join(state.name for state in states)

"""A provider with one broken rule: how it is broken, and which checks must see it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.server import FakeProvider
from bigfleet.provider.kit import Kind, MachineRecord
from bigfleet.provider.kit.lifecycle import Mutation
from bigfleet.rpc.fencing import FencingToken

Break = Callable[[FakeProvider], None]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Mutant:
    """A way to change a provider, and the names of the checks that fail then; no other may."""

    name: str
    break_it: Break
    fails: frozenset[str]


MUTANTS: list[Mutant] = []


def fails(*checks: str) -> Callable[[Break], Break]:
    def register(break_it: Break) -> Break:
        MUTANTS.append(Mutant(break_it.__name__, break_it, frozenset(checks)))
        return break_it

    return register


def retouch(provider: FakeProvider, change: Callable[[pb.Machine], None], rpcs: tuple[str, ...] = ()) -> None:
    """Change every machine that these RPCs show (all, when none is named)."""
    for rpc in rpcs or ("Create", "Configure", "Drain", "Delete", "Get", "List"):

        def answer(message: Any) -> Any:
            machines = message.machines if isinstance(message, pb.MachineList) else [message]
            for machine in machines:
                change(machine.machine if isinstance(machine, pb.TransitionAck) else machine)
            return message

        after(provider, rpc, answer)


def after(provider: FakeProvider, rpc: str, change: Callable[[Any], Any]) -> None:
    """Change what an RPC answers."""

    async def around(original: Callable[[Any, Any], Awaitable[Any]], request: Any, context: Any) -> Any:
        return change(await original(request, context))

    wrap(provider, rpc, around)


def wrap(provider: FakeProvider, rpc: str, around: Callable[[Any, Any, Any], Awaitable[Any]]) -> None:
    service = provider.kit.service
    original = getattr(service, rpc)

    async def wrapped(request: Any, context: Any) -> Any:
        return await around(original, request, context)

    setattr(service, rpc, wrapped)


def override(owner: object, method: Callable[P, R], by: Callable[P, R]) -> None:
    """Put `by` in the place of one of the owner's methods."""
    setattr(owner, method.__name__, wraps(method)(by))


def instead(provider: FakeProvider, answer: Callable[[Mutation], tuple[str, MachineRecord] | None]) -> None:
    """Answer some mutating calls in another way; None leaves the call to the real provider."""
    original = provider.lifecycle.mutate

    def mutate(call: Mutation) -> tuple[str, MachineRecord]:
        return answer(call) or original(call)

    override(provider.lifecycle, original, mutate)


def admission(
    provider: FakeProvider, admit: Callable[[Callable[[FencingToken, str], None], FencingToken, str], None]
) -> None:
    """Another rule for tokens."""
    fences = provider.kit.state.fences
    original = fences.admit
    override(fences, original, lambda token, machine_id: admit(original, token, machine_id))


def state_of(provider: FakeProvider, machine_id: str) -> MachineState | None:
    return provider.inventory.get(machine_id).state if machine_id in provider.inventory else None


def acknowledged(provider: FakeProvider, call: Mutation) -> tuple[str, MachineRecord]:
    return provider.kit.state.operations.get(call.machine_id, call.kind), provider.inventory.get(call.machine_id)


def taken(provider: FakeProvider, kind: Kind, state: MachineState) -> None:
    """Acknowledge a call that the state forbids."""

    def answer(call: Mutation) -> tuple[str, MachineRecord] | None:
        if call.kind is kind and state_of(provider, call.machine_id) is state and call.grace_seconds >= 0:
            provider.kit.state.fences.admit(call.token, call.machine_id)
            return acknowledged(provider, call)
        return None

    instead(provider, answer)

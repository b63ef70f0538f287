"""The random walk of the conformance suite: it goes everywhere."""

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.checks.walk import CALLS, EDGES, MachineModel

STABLE = (MachineState.SPECULATIVE, MachineState.IDLE, MachineState.CONFIGURED)


def test_every_call_comes_in_every_stable_state() -> None:
    model, met = MachineModel(), set()
    for call in CALLS:
        met.add((model.state, call))
        if model.leads_on(call):
            model.take(call, {})
    assert met == {(state, call) for state in STABLE for call in EDGES}

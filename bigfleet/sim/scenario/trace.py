"""The trace of a run: one JSON object on a line for everything that happened (docs/reference/engine.md#scenarios)."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine import Action
from bigfleet.sim.world.shard import SimulatedShard, state_counts


class Trace:
    """Lines in order. The same run gives the same bytes."""

    def __init__(self, *, counts_only: bool = False) -> None:
        self.lines: list[str] = []
        # Numbers of actions by kind instead of every action: for large runs.
        self._counts_only = counts_only

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def start(self, name: str) -> None:
        self._write("scenario_start", notes=name)

    def end(self, shard: SimulatedShard) -> None:
        self._write("scenario_end", state=_state(shard))

    def rollup(self, cluster: str, rows: int, at: float | None = None) -> None:
        self._write("rollup", at=at, cluster=cluster, notes=f"needs={rows}")

    def cycle(self, actions: Sequence[Action], shard: SimulatedShard, at: float | None = None) -> None:
        self._write("cycle", at=at, actions=self._actions(actions), state=_state(shard))

    def _actions(self, actions: Sequence[Action]) -> Any:
        if self._counts_only:
            return dict(sorted(Counter(action.kind.value for action in actions).items()))
        ordered = sorted(actions, key=lambda action: (action.kind, action.machine_id))
        return [
            {"kind": a.kind.value, "machine_id": a.machine_id} | ({"cluster": a.cluster} if a.cluster else {})
            for a in ordered
        ]

    def _write(self, kind: str, at: float | None = None, **fields: Any) -> None:
        event: dict[str, Any] = {"step": len(self.lines), "kind": kind}
        if at is not None:
            event["at"] = round(at, 3)
        event |= {name: value for name, value in fields.items() if value}
        self.lines.append(json.dumps(event, separators=(",", ":"), ensure_ascii=False))


def _state(shard: SimulatedShard) -> dict[str, Any]:
    state: dict[str, Any] = {"total": len(shard.machines), "by_state": state_counts(shard.states)}
    configured: Counter[str] = Counter(_cluster(machine) for machine in shard.machines.values())
    configured.pop("", None)
    if configured:
        state["configured_per_cluster"] = dict(sorted(configured.items()))
    return state


def _cluster(machine: Machine) -> str:
    return machine.cluster if machine.state is MachineState.CONFIGURED else ""

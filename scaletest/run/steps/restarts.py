"""Which containers ended during the soak: BigFleet's, or those that only belong to the harness."""

from collections.abc import Mapping
from dataclasses import dataclass

from scaletest.cluster.deaths import BigFleetDied, HarnessDied
from scaletest.judge.gates.gate import Component, Reading
from scaletest.model.names import PROMETHEUS_POD
from scaletest.run.target.kube_api import ContainerLife

_OWN: dict[str, Component] = {"shard": "shard", "coordinator": "coordinator", "provider": "provider"}
# The pod with processes of BigFleet and of the harness; its supervisor's exit code tells which of the two died.
_MIXED, _MIXED_CONTAINER = "kwok-cluster", "workload"


@dataclass(frozen=True)
class Ending:
    """A container that ended, or whose pod was replaced or went away."""

    name: str
    times: int
    # None: it is not BigFleet's.
    component: Component | None
    sentence: str


def endings(before: Mapping[str, ContainerLife], after: Mapping[str, ContainerLife]) -> list[Ending]:
    """What ended between two looks, in the order of their names."""
    return [
        ending
        for name in sorted(before.keys() | after.keys())
        if (ending := _ending(name, before.get(name), after.get(name)))
    ]


def _ending(name: str, was: ContainerLife | None, now: ContainerLife | None) -> Ending | None:
    if now is None and was is not None:
        return Ending(name, 1, _owner(name, was), f"{name} is gone")
    if now is None:
        return None
    if was is not None and was.uid != now.uid:
        return Ending(name, 1 + now.restarts, _owner(name, now, replaced=True), f"the pod of {name} was replaced")
    times = now.restarts - (was.restarts if was else 0)
    if times <= 0:
        return None
    whose = f", because {_WHOSE[now.exit_code]} died" if _is_mixed(name, now) and now.exit_code in _WHOSE else ""
    return Ending(name, times, _owner(name, now), f"{name} ended and came back ({times}×){whose}")


_WHOSE: dict[int | None, str] = {
    BigFleetDied.exit_code: "a process of BigFleet",
    HarnessDied.exit_code: "a process of the harness",
}


def _is_mixed(name: str, life: ContainerLife) -> bool:
    return life.component == _MIXED and name.endswith(f"/{_MIXED_CONTAINER}")


def _owner(name: str, life: ContainerLife, *, replaced: bool = False) -> Component | None:
    """A container that mixes both counts as BigFleet's unless its exit code, or its pod's end, says otherwise."""
    if _is_mixed(name, life):
        return None if replaced or life.exit_code == HarnessDied.exit_code else "operator"
    return _OWN.get(life.component)


def restarts_reading(found: list[Ending]) -> Reading:
    """What the gate on restarts is judged by: BigFleet's own endings."""
    own = [ending for ending in found if ending.component]
    # Prometheus is no part of BigFleet: if it ended alone, every figure has a hole, but BigFleet did not fail.
    blind = [ending.sentence for ending in found if ending.name.startswith(f"{PROMETHEUS_POD}/")]
    if blind and not own:
        return Reading(None, problem="; ".join(blind))
    component = own[0].component if own else None
    detail = "; ".join(ending.sentence for ending in own)
    return Reading(sum(ending.times for ending in own), detail=detail, component=component)

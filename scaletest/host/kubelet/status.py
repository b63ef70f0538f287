"""A pod's status as the apiserver wants it, from what its containers do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bigfleet.kube import Object
from scaletest.host.kubelet.events import timestamp

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def running(since: datetime) -> dict[str, Any]:
    return {"running": {"startedAt": timestamp(since)}}


def terminated(code: int, began: datetime, ended: datetime, message: str = "") -> dict[str, Any]:
    """The end of a process; a negative code is a signal's number, shown as 128 + number as shells and kubelets do."""
    details: dict[str, Any] = {
        "exitCode": 128 - code if code < 0 else code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": timestamp(began),
        "finishedAt": timestamp(ended),
    }
    if code < 0:
        details["signal"] = -code
    if message:
        details |= {"reason": "StartError", "message": message}
    return {"terminated": details}


@dataclass
class ContainerStatus:
    """What one container does now and did last."""

    name: str
    image: str
    state: dict[str, Any] = field(default_factory=lambda: waiting("PodInitializing"))
    last_state: dict[str, Any] = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    process_id: int = 0

    @property
    def exit_code(self) -> int | None:
        """The exit code of a container that has ended for good."""
        ended = self.state.get("terminated")
        return ended["exitCode"] if ended else None

    def as_object(self) -> Object:
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "containerID": f"process://{self.process_id}" if self.process_id else "",
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restart_count,
        }


def phase_of(
    init: Sequence[ContainerStatus], main: Sequence[ContainerStatus], restart_policy: str, ending: bool
) -> Phase:
    """The pod's phase. `ending` says that nothing will be started again."""
    final = ending or restart_policy == "Never"
    if final and any(one.exit_code not in (None, 0) for one in init):
        return "Failed"
    codes = [one.exit_code for one in main]
    if all(code is not None for code in codes) and (ending or restart_policy != "Always"):
        return "Succeeded" if not any(codes) else "Failed"
    if all(one.exit_code == 0 for one in init) and any(_has_run(one) for one in main):
        return "Running"
    return "Pending"


def _has_run(container: ContainerStatus) -> bool:
    return "waiting" not in container.state or bool(container.last_state)


class Conditions:
    """The pod's conditions, each with the moment of its last change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, str]] = {}

    def update(self, values: Mapping[str, bool]) -> list[Object]:
        for name, value in values.items():
            if name not in self._known or self._known[name][0] != value:
                self._known[name] = (value, timestamp())
        return [
            {"type": name, "status": str(value), "lastTransitionTime": since}
            for name, (value, since) in self._known.items()
        ]


def pod_status(
    *,
    phase: Phase,
    conditions: Conditions,
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    address: str,
    host_address: str,
    began: str,
) -> Object:
    """The status subresource of a pod that this kubelet runs."""
    initialized = all(one.exit_code == 0 for one in init)
    ready = phase == "Running" and all(one.ready for one in main)
    status: Object = {
        "phase": phase,
        "conditions": conditions.update({"Initialized": initialized, "ContainersReady": ready, "Ready": ready}),
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": began,
        "containerStatuses": [one.as_object() for one in main],
    }
    if init:
        # An init container is "ready" when it has done its work.
        status["initContainerStatuses"] = [one.as_object() | {"ready": one.exit_code == 0} for one in init]
    return status

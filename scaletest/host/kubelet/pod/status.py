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


def terminated(
    code: int, began: datetime, ended: datetime, message: str = "", reason: str | None = None
) -> dict[str, Any]:
    """The end of a process; a negative code is a signal's number, shown as 128 + number as shells and kubelets do."""
    details: dict[str, Any] = {
        "exitCode": 128 - code if code < 0 else code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": timestamp(began),
        "finishedAt": timestamp(ended),
    }
    if code < 0:
        details["signal"] = -code
    if message:
        details["message"] = message
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
    # An init container that goes on beside the others once it has started.
    sidecar: bool = False

    @property
    def exit_code(self) -> int | None:
        """The exit code of a container that has ended for good."""
        ended = self.state.get("terminated")
        return ended["exitCode"] if ended else None

    @property
    def has_run(self) -> bool:
        return "waiting" not in self.state or bool(self.last_state)

    @property
    def lets_others_start(self) -> bool:
        """Of an init container: whether the next one may start."""
        return self.started if self.sidecar else self.exit_code == 0

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
    if final and any(one.exit_code not in (None, 0) for one in init if not one.sidecar):
        return "Failed"
    codes = [one.exit_code for one in main]
    if any(one.sidecar and "running" in one.state for one in init):
        return "Running" if any(one.has_run for one in main) else "Pending"
    if all(code is not None for code in codes) and (ending or restart_policy != "Always"):
        return "Succeeded" if not any(codes) else "Failed"
    return "Running" if any(one.has_run for one in main) else "Pending"


@dataclass(frozen=True)
class Condition:
    """A condition's value, and why it is not True."""

    holds: bool
    reason: str = ""
    message: str = ""


class Conditions:
    """The pod's conditions, each with the moment of its last change."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[bool, str]] = {}

    def update(self, values: Mapping[str, Condition]) -> list[Object]:
        written: list[Object] = []
        for name, value in values.items():
            if name not in self._since or self._since[name][0] != value.holds:
                self._since[name] = (value.holds, timestamp())
            # An empty reason is sent as none: a patch would otherwise leave the former one there.
            written.append(
                {
                    "type": name,
                    "status": str(value.holds),
                    "reason": value.reason or None,
                    "message": value.message or None,
                    "lastTransitionTime": self._since[name][1],
                }
            )
        return written


def conditions_of(
    phase: Phase,
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    gates: Mapping[str, bool],
    ending: bool,
) -> dict[str, Condition]:
    """What a kubelet says about a pod. `gates` are the pod's readinessGates and whether each is open."""
    completed = Condition(False, "PodCompleted")
    incomplete = [one.name for one in init if not one.lets_others_start]
    if not incomplete or any(one.has_run for one in main):
        initialized = Condition(True, "PodCompleted" if phase == "Succeeded" else "")
    else:
        initialized = Condition(
            False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]"
        )
    unready = [one.name for one in (*(one for one in init if one.sidecar), *main) if not one.ready]
    if phase == "Succeeded":
        containers_ready = completed
    elif phase == "Failed":
        containers_ready = Condition(False, "PodFailed")
    elif unready:
        containers_ready = Condition(
            False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        )
    else:
        containers_ready = Condition(phase == "Running")
    ready = containers_ready
    closed = [name for name, is_open in gates.items() if not is_open]
    if ready.holds and closed:
        ready = Condition(
            False, "ReadinessGatesNotReady", f"corresponding condition of pod readiness gate {closed[0]!r} is not true"
        )
    over = phase in ("Succeeded", "Failed")
    return {
        "PodReadyToStartContainers": Condition(not over and not ending),
        "Initialized": initialized,
        "ContainersReady": containers_ready,
        "Ready": ready,
    }


def pod_status(
    *,
    phase: Phase,
    conditions: list[Object],
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    address: str,
    host_address: str,
    began: str,
    reason: str = "",
    message: str = "",
) -> Object:
    """The status subresource of a pod that this kubelet runs."""
    status: Object = {
        "phase": phase,
        "conditions": conditions,
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": began,
        "containerStatuses": [one.as_object() for one in main],
    }
    if reason:
        status |= {"reason": reason, "message": message}
    if init:
        # An init container is "ready" when it has done its work.
        status["initContainerStatuses"] = [
            one.as_object() | ({} if one.sidecar else {"ready": one.exit_code == 0}) for one in init
        ]
    return status

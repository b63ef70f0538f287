"""kube-scheduler: Kubernetes' own, or packing densely by a configuration file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaletest.components.component import Component, Plane, rendered, switched_off
from scaletest.components.serving import delegating, dialling, serving

NAME = "kube-scheduler"
PORT = 10259


@dataclass(frozen=True)
class SchedulerSettings:
    """What the harness's schedulers do not have in common."""

    # Requests to the API in a second, and at once.
    qps: int
    burst: int
    # Where `configuration` has been written; None: Kubernetes' own profile, and the API decides which clients see the
    # metrics.
    config_file: Path | None = None
    # The longest pause between two attempts to schedule a Pod; 0: Kubernetes' own. Only with a configuration.
    pod_max_backoff_seconds: int = 0
    gates_off: tuple[str, ...] = ()


def build(plane: Plane, settings: SchedulerSettings) -> Component:
    """A configuration file takes the place of the flags that say how to dial the API."""
    told = (
        {"config": settings.config_file}
        if settings.config_file
        else dialling(plane, NAME, settings.qps, settings.burst) | delegating(plane, NAME)
    )
    flags = {**told, "feature-gates": switched_off(settings.gates_off), **serving(plane, NAME, PORT)}
    return Component(NAME, rendered(flags), f"{plane.url(PORT)}/readyz", f"{plane.url(PORT)}/metrics")


def configuration(plane: Plane, settings: SchedulerSettings) -> dict[str, Any]:
    """The real scheduler, binding fast and packing densely; its back-off stays Kubernetes' own unless one is given."""
    backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": settings.pod_max_backoff_seconds}
    dials = {"kubeconfig": str(plane.pki.kubeconfig(NAME)), "qps": settings.qps, "burst": settings.burst}
    return {
        **(backoff if settings.pod_max_backoff_seconds else {}),
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": dials,
        "leaderElection": {"leaderElect": False},
        "enableProfiling": False,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                            }
                        },
                    }
                ],
            }
        ],
    }

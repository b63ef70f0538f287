"""kwok: the kubelets of every Node that has none."""

from dataclasses import dataclass
from pathlib import Path

from scaletest.components.component import Component, Plane, rendered

NAME = "kwok"
PORT = 10247


@dataclass(frozen=True)
class KwokSettings:
    """Its stages, and how it keeps Nodes alive."""

    stages: Path
    # 0: it keeps no Node leases.
    node_lease_seconds: int


def build(plane: Plane, settings: KwokSettings) -> Component:
    flags = {
        "kubeconfig": plane.pki.kubeconfig(NAME),
        "config": settings.stages,
        "manage-all-nodes": True,
        "node-lease-duration-seconds": settings.node_lease_seconds,
        "server-address": plane.socket_address(PORT),
        "v": "WARN",
    }
    # Plain HTTP: it shows nothing but its own health and metrics.
    return Component(
        NAME,
        rendered(flags),
        f"http://{plane.socket_address(PORT)}/healthz",
        f"http://{plane.socket_address(PORT)}/metrics",
    )

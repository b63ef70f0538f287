"""kwok: the kubelets of every Node that has none."""

from dataclasses import dataclass
from pathlib import Path

from scaletest.components.component import Component, Site, rendered

NAME = "kwok"
PORT = 10247


@dataclass(frozen=True)
class KwokSettings:
    """Its stages, and how it keeps Nodes alive."""

    stages: Path
    # 0: it keeps no Node leases.
    node_lease_seconds: int


def build(site: Site, settings: KwokSettings) -> Component:
    flags = {
        "kubeconfig": site.pki.kubeconfig(NAME),
        "config": settings.stages,
        "manage-all-nodes": True,
        "node-lease-duration-seconds": settings.node_lease_seconds,
        "server-address": site.socket_address(PORT),
        "v": "WARN",
    }
    # Plain HTTP: it shows nothing but its own health and metrics.
    return Component(
        NAME,
        rendered(flags),
        f"http://{site.socket_address(PORT)}/healthz",
        f"http://{site.socket_address(PORT)}/metrics",
    )

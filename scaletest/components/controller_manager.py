"""kube-controller-manager: the controllers that its caller names, and no other."""

from dataclasses import dataclass

from scaletest.components.component import Component, Plane, rendered
from scaletest.components.serving import delegating, dialling, serving

NAME = "kube-controller-manager"
PORT = 10257


@dataclass(frozen=True)
class ControllerManagerSettings:
    """What the harness's controller managers do not have in common."""

    controllers: tuple[str, ...]
    # Requests to the API in a second, and at once.
    qps: int
    burst: int
    # Whether the API has ServiceAccounts: controllers then act as their own, Pods are told the CA, and the API decides
    # which clients see the metrics.
    has_accounts: bool = False


def build(plane: Plane, settings: ControllerManagerSettings) -> Component:
    flags = {
        **dialling(plane, NAME, settings.qps, settings.burst),
        "controllers": settings.controllers,
        **serving(plane, NAME, PORT),
        **(_accounts(plane) if settings.has_accounts else {}),
    }
    return Component(NAME, rendered(flags), f"{plane.url(PORT)}/healthz", f"{plane.url(PORT)}/metrics")


def _accounts(plane: Plane) -> dict[str, object]:
    return {"root-ca-file": plane.pki.ca, "use-service-account-credentials": True, **delegating(plane, NAME)}

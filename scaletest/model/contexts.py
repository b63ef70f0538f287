"""What the name of a kube context tells: whether its cluster costs money."""

from typing import Literal

# Parts of a context's name that give a paid cloud away: upstream's runbook has them, plus Scaleway's.
_CLOUD_NAMES = ("eks", "aws", "gke", "gcp", "aks", "azure", "scw", "scaleway", "kapsule")

TargetKind = Literal["embedded", "cloud", "kind", "unknown"]


def classify_context(name: str) -> TargetKind:
    """What a context's name suggests. A cloud's name wins: `kind-of-eks` costs money, a laptop's kind does not."""
    lowered = name.lower()
    if any(part in lowered for part in _CLOUD_NAMES):
        return "cloud"
    return "kind" if "kind" in lowered else "unknown"

"""One thin, fast Kubernetes client: raw JSON over aiohttp and msgspec, for the kinds we know by name."""

from bigfleet.kube.client import KubeClient
from bigfleet.kube.config import KubeConfig
from bigfleet.kube.errors import AlreadyExists, Conflict, Gone, KubeError, NotFound, TooManyRequests
from bigfleet.kube.informer import Informer, Object
from bigfleet.kube.resources import Resource

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Informer",
    "KubeClient",
    "KubeConfig",
    "KubeError",
    "NotFound",
    "Object",
    "Resource",
    "TooManyRequests",
]

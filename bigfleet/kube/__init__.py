"""One thin, fast Kubernetes client: raw JSON over aiohttp and msgspec, for the kinds we know by name."""

from bigfleet.kube.client import KubeClient
from bigfleet.kube.config import KubeConfig
from bigfleet.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    KubeConfigError,
    KubeError,
    NotFound,
    TooManyRequests,
    Unreachable,
)
from bigfleet.kube.informer import Informer, Object, TrimmedInformer, TypedInformer, key_of
from bigfleet.kube.resources import Resource
from bigfleet.kube.store import Store
from bigfleet.kube.subset import ObjectMeta, Subset
from bigfleet.kube.workqueue import WorkQueue

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Informer",
    "KubeClient",
    "KubeConfig",
    "KubeConfigError",
    "KubeError",
    "NotFound",
    "Object",
    "ObjectMeta",
    "Resource",
    "Store",
    "Subset",
    "TooManyRequests",
    "TrimmedInformer",
    "TypedInformer",
    "Unreachable",
    "WorkQueue",
    "key_of",
]

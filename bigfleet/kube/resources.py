"""The resource types we talk about, and the paths an apiserver serves them at. No discovery: we know our GVRs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """One resource type, e.g. `apps/v1 statefulsets`."""

    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection, an object or a subresource. `namespace=None` spans all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


BIGFLEET_GROUP = "bigfleet.lucy.sh"

NODES = Resource("nodes", namespaced=False)
PODS = Resource("pods")
CONFIG_MAPS = Resource("configmaps")
SECRETS = Resource("secrets")
SERVICES = Resource("services")
SERVICE_ACCOUNTS = Resource("serviceaccounts")
EVENTS = Resource("events")
DEPLOYMENTS = Resource("deployments", "apps")
STATEFUL_SETS = Resource("statefulsets", "apps")
CRDS = Resource("customresourcedefinitions", "apiextensions.k8s.io", namespaced=False)
TOKEN_REVIEWS = Resource("tokenreviews", "authentication.k8s.io", namespaced=False)
CAPACITY_REQUESTS = Resource("capacityrequests", BIGFLEET_GROUP, "v1alpha1")
UPCOMING_NODES = Resource("upcomingnodes", BIGFLEET_GROUP, "v1alpha1", namespaced=False)
AVAILABLE_CAPACITIES = Resource("availablecapacities", BIGFLEET_GROUP, "v1alpha1", namespaced=False)

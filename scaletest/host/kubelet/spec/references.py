"""The ConfigMaps and Secrets that a pod refers to."""

import base64

from bigfleet.kube import KubeClient, NotFound, Object, Resource
from bigfleet.kube.resources import CONFIG_MAPS, SECRETS
from scaletest.errors import ScaletestError


class Unresolvable(ScaletestError):
    """A pod spec asks for something that is not there (yet)."""

    # What the container's status and the Event say, as a kubelet would.
    waiting_reason = "CreateContainerConfigError"
    event_reason = "Failed"


class Unmountable(Unresolvable):
    """A volume cannot be laid out (yet)."""

    waiting_reason = "ContainerCreating"
    event_reason = "FailedMount"


class References:
    """Reads the ConfigMaps and Secrets that a pod refers to."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def config_map(self, name: str, *, optional: bool) -> dict[str, bytes]:
        """All keys of a ConfigMap; empty if it is optional and missing."""
        found = await self._read(CONFIG_MAPS, "configmap", name, optional)
        return {key: text.encode() for key, text in (found.get("data") or {}).items()} | _decoded(found, "binaryData")

    async def secret(self, name: str, *, optional: bool) -> dict[str, bytes]:
        """All keys of a Secret; empty if it is optional and missing."""
        return _decoded(await self._read(SECRETS, "secret", name, optional), "data")

    async def _read(self, resource: Resource, kind: str, name: str, optional: bool) -> Object:
        try:
            found: Object = await self._client.get(resource, name, self._namespace)
        except NotFound:
            if optional:
                return {}
            raise Unresolvable(f'{kind} "{name}" not found') from None
        return found


def _decoded(found: Object, section: str) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (found.get(section) or {}).items()}

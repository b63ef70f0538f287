"""PersistentVolumeClaims: each gets a directory of the host, which lives as long as the claim, at most as the host.

A StatefulSet's pod that is deleted finds its data again, as on any cluster. There is no volume controller on this host,
so what one does (bind, release, lift the protection) is done here for every claim, whatever its storage class.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

import structlog

from bigfleet.kube import AlreadyExists, Conflict, Informer, KubeClient, KubeError, NotFound, Object, Resource, key_of
from scaletest.host.kubelet.events import Events

CLAIMS = Resource("persistentvolumeclaims")
VOLUMES = Resource("persistentvolumes", namespaced=False)
_PROTECTION = "kubernetes.io/pvc-protection"
_RETRY_SECONDS = 1.0

log = structlog.get_logger(__name__)


def claim_directory(host_directory: Path, namespace: str, name: str) -> Path:
    return host_directory / "claims" / namespace / name


class Claims:
    """Binds claims and lets go of those that are deleted and used by no pod."""

    def __init__(self, client: KubeClient, events: Events, host_directory: Path) -> None:
        self._client = client
        self._events = events
        self._host_directory = host_directory
        self._pods: Iterable[Object] = ()
        self._changed = asyncio.Event()
        self._informer = Informer(client, CLAIMS, on_change=lambda _old, _new: self._changed.set())

    def look_again(self) -> None:
        """A pod came or went."""
        if len(self._informer):
            self._changed.set()

    async def run(self, pods: Iterable[Object]) -> None:
        self._pods = pods
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                for claim in list(self._informer):
                    await self._serve(claim)

    async def _serve(self, claim: Object) -> None:
        metadata = claim["metadata"]
        try:
            if "deletionTimestamp" not in metadata:
                if not claim["spec"].get("volumeName"):
                    await self._bind(claim)
            elif _PROTECTION in (metadata.get("finalizers") or []) and not self._is_used(claim):
                await self._release(claim)
        except (NotFound, Conflict) as error:
            log.info("claim changed meanwhile", claim=key_of(claim), error=str(error))
        except KubeError as error:
            log.warning("claim not served, trying again", claim=key_of(claim), error=str(error))
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)

    async def _bind(self, claim: Object) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        namespace, name = metadata["namespace"], metadata["name"]
        directory = claim_directory(self._host_directory, namespace, name)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        volume_name = f"pvc-{metadata['uid']}"
        capacity = spec["resources"]["requests"]
        volume = {
            "metadata": {"name": volume_name},
            "spec": {
                "capacity": capacity,
                "accessModes": spec["accessModes"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": spec.get("storageClassName") or "",
                "hostPath": {"path": str(directory)},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": namespace,
                    "name": name,
                    "uid": metadata["uid"],
                },
            },
        }
        with contextlib.suppress(AlreadyExists):  # ours, from a try that broke off
            await self._client.create(VOLUMES, volume)
        await self._client.patch(VOLUMES, volume_name, {"status": {"phase": "Bound"}}, subresource="status")
        bound = {
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume_name},
        }
        await self._client.patch(CLAIMS, name, bound, namespace)
        status = {"phase": "Bound", "capacity": capacity, "accessModes": spec["accessModes"]}
        await self._client.patch(CLAIMS, name, {"status": status}, namespace, "status")
        self._events.record(
            claim,
            "Normal",
            "ProvisioningSucceeded",
            "The claim is a directory of the embedded host: its size is not enforced, and it goes with the host",
            about="PersistentVolumeClaim",
        )

    async def _release(self, claim: Object) -> None:
        metadata = claim["metadata"]
        volume = claim["spec"].get("volumeName")
        if volume:
            # The protection of volumes has no controller here either.
            await self._client.patch(VOLUMES, volume, {"metadata": {"finalizers": None}})
            await self._client.delete(VOLUMES, volume)
        directory = claim_directory(self._host_directory, metadata["namespace"], metadata["name"])
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        finalizers = [one for one in metadata["finalizers"] if one != _PROTECTION]
        await self._client.patch(
            CLAIMS, metadata["name"], {"metadata": {"finalizers": finalizers}}, metadata["namespace"]
        )
        self._events.forget(metadata["uid"])

    def _is_used(self, claim: Object) -> bool:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        return any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == name
            for pod in self._pods
            if pod["metadata"]["namespace"] == namespace
            for volume in pod["spec"].get("volumes") or []
        )

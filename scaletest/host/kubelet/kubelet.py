"""The process kubelet: follows the pods that are bound to its node and runs each of them."""

import asyncio
from collections import Counter
from functools import partial

from bigfleet.kube import Informer, Object, key_of
from bigfleet.kube.resources import CONFIG_MAPS, PODS, SECRETS
from scaletest.host.credentials import NODE_NAME, Credentials
from scaletest.host.kubelet import node, policy
from scaletest.host.kubelet.pods import Pod
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.server import LogServer

_MAX_REFUSAL_DELAY_SECONDS = 30.0


class Kubelet:
    """All pods of one node."""

    def __init__(self, runtime: Runtime, credentials: Credentials) -> None:
        self._runtime = runtime
        self._pods: dict[str, Pod] = {}
        self._newest: dict[str, Pod] = {}
        self._refused: Counter[str] = Counter()
        self._server = LogServer(runtime, credentials, self._newest.get)

    async def run(self, version: str, registered: asyncio.Event) -> None:
        """Register the node, then run its pods until cancelled. The pods outlive this call: `stop` ends them."""
        runtime = self._runtime
        await self._server.start()
        try:
            pods = Informer(runtime.client, PODS, fields=f"spec.nodeName={NODE_NAME}", on_change=self._pod_changed)
            async with asyncio.TaskGroup() as group:
                group.create_task(pods.run())
                for resource in (CONFIG_MAPS, SECRETS):
                    changed = partial(self._source_changed, resource.plural)
                    group.create_task(
                        Informer(runtime.client, resource, trim=_name_and_version, on_change=changed).run()
                    )
                await pods.synced.wait()
                await node.register(runtime.client, runtime.network, dict(runtime.allocatable), version)
                registered.set()
        finally:
            await self._server.stop()

    async def stop(self, grace_seconds: float) -> None:
        """End every pod, gracefully within the grace."""
        await asyncio.gather(*(pod.abandon(grace_seconds) for pod in self._pods.values()))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or old["metadata"]["uid"] != new["metadata"]["uid"]):
            vanished = self._pods[old["metadata"]["uid"]]
            vanished.vanish()
            self._forget(vanished)
        if new is not None:
            pod = self._pods.get(new["metadata"]["uid"]) or self._adopt(new)
            pod.update(new)

    def _adopt(self, new: Object) -> Pod:
        key = key_of(new)
        address = new.get("status", {}).get("podIP")
        if address:
            self._runtime.addresses.learn(key, address)
        pod = Pod(self._runtime, new, self._newest.get(key), self._refusal_delay(new), self._forget)
        self._pods[pod.uid] = self._newest[key] = pod
        return pod

    def _forget(self, pod: Pod) -> None:
        """Drop a pod once it has ended and its object is gone: until then, finalizers may bring more news of it."""
        if pod.gone.is_set() and pod.vanished:
            del self._pods[pod.uid]
            if self._newest[pod.key] is pod:
                del self._newest[pod.key]

    def _refusal_delay(self, pod: Object) -> float:
        """How long a refused pod waits before it fails: longer for each that its controller made before it."""
        owners = pod["metadata"].get("ownerReferences") or []
        if not owners or policy.refusal(pod) is None:
            return 0.0
        owner = owners[0]["uid"]
        self._refused[owner] += 1
        return min(2.0 ** (self._refused[owner] - 1) - 1, _MAX_REFUSAL_DELAY_SECONDS)

    def _source_changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        metadata = (new or old or {})["metadata"]
        for pod in self._pods.values():
            if pod.namespace == metadata["namespace"]:
                pod.source_changed(kind, metadata["name"])


def _name_and_version(item: Object) -> Object:
    metadata = item["metadata"]
    return {"metadata": {key: metadata[key] for key in ("namespace", "name", "resourceVersion")}}

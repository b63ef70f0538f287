"""The process kubelet: follows the pods that are bound to its node and runs each of them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial

from bigfleet.kube import Informer, Object, Resource, key_of
from bigfleet.kube.resources import CONFIG_MAPS, PODS, SECRETS
from scaletest.components.pki import Pki
from scaletest.host.credentials import NODE_NAME
from scaletest.host.kubelet import policy
from scaletest.host.kubelet.network.names import presence
from scaletest.host.kubelet.network.services import ServiceProxy
from scaletest.host.kubelet.node import Node
from scaletest.host.kubelet.pod.pods import KubeletPod
from scaletest.host.kubelet.process.isolation import Isolation
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.streams.server import KubeletServer
from scaletest.host.kubelet.volumes.claims import Claims

_MAX_REFUSAL_DELAY_SECONDS = 30.0
# Changes that come together, as in a rollout, are passed on together.
_NAMES_PAUSE_SECONDS = 0.1
_NETWORK_POLICIES = Resource("networkpolicies", "networking.k8s.io")


class Kubelet:
    """All pods of one node."""

    def __init__(self, runtime: Runtime, pki: Pki) -> None:
        self._runtime = runtime
        self._pods: dict[str, KubeletPod] = {}
        self._newest: dict[str, KubeletPod] = {}
        self._refused: Counter[str] = Counter()
        self._server = KubeletServer(runtime, pki, self._newest.get)
        self._claims = Claims(runtime.client, runtime.events, runtime.directory)
        self._policies = Informer(runtime.client, _NETWORK_POLICIES)
        self._services = ServiceProxy(runtime.names, runtime.events)

    async def run(self, version: str, registered: asyncio.Event) -> None:
        """Register the node, then run its pods until cancelled. The pods outlive this call: `stop` ends them."""
        runtime = self._runtime
        pods = Informer(runtime.client, PODS, fields=f"spec.nodeName={NODE_NAME}", on_change=self._pod_changed)
        runtime.names.know(pods)
        node = Node(runtime.client, runtime.network, dict(runtime.allocatable), runtime.directory)
        await self._server.start()
        try:
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(Isolation.probe(runtime.spawner, runtime.directory))
                known = (runtime.names.services, self._policies, *self._sources())
                for informer in known:
                    group.create_task(informer.run())
                # What a pod is started with must be known before the first pod is.
                runtime.isolation = await probing
                for informer in known:
                    await informer.synced.wait()
                group.create_task(pods.run())
                group.create_task(self._claims.run(pods))
                group.create_task(self._follow_names())
                group.create_task(runtime.log_times.follow())
                await pods.synced.wait()
                await node.register(version)
                group.create_task(node.live())
                registered.set()
        finally:
            self._services.close()
            await self._server.stop()

    async def stop(self, grace_seconds: float) -> None:
        """End every pod, gracefully within the grace."""
        await asyncio.gather(*(pod.abandon(grace_seconds) for pod in self._pods.values()))

    def _sources(self) -> list[Informer]:
        client = self._runtime.client
        return [
            Informer(client, resource, trim=_name_and_version, on_change=partial(self._source_changed, resource.plural))
            for resource in (CONFIG_MAPS, SECRETS)
        ]

    async def _follow_names(self) -> None:
        """Pass every change of names on: to the listeners of Services and to the hosts files of pods."""
        names = self._runtime.names
        while True:
            await names.changed.wait()
            names.changed.clear()
            await self._services.adjust()
            for pod in list(self._pods.values()):
                pod.names_changed()
            await asyncio.sleep(_NAMES_PAUSE_SECONDS)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or old["metadata"]["uid"] != new["metadata"]["uid"]):
            vanished = self._pods[old["metadata"]["uid"]]
            vanished.vanish()
            self._forget(vanished)
            self._claims.look_again()
        if new is not None:
            pod = self._pods.get(new["metadata"]["uid"]) or self._adopt(new)
            pod.update(new)
        if (old and presence(old)) != (new and presence(new)):
            self._runtime.names.changed.set()

    def _adopt(self, new: Object) -> KubeletPod:
        key = key_of(new)
        address = new.get("status", {}).get("podIP")
        if address:
            self._runtime.addresses.learn(key, address)
        refusals = policy.refusals(new)
        pod = KubeletPod(
            self._runtime,
            new,
            predecessor=self._newest.get(key),
            refusals=refusals,
            refusal_delay=self._refusal_delay(new, refusals),
            unenforced=policy.unenforced(new, self._policies, isolated=self._runtime.isolation.possible),
            on_gone=self._forget,
        )
        self._pods[pod.uid] = self._newest[key] = pod
        return pod

    def _forget(self, pod: KubeletPod) -> None:
        """Drop a pod once it has ended and its object is gone: until then, finalizers may bring more news of it."""
        if pod.gone.is_set() and pod.vanished:
            del self._pods[pod.uid]
            if self._newest[pod.key] is pod:
                del self._newest[pod.key]

    def _refusal_delay(self, pod: Object, refusals: Sequence[str]) -> float:
        """How long a refused pod waits before it fails: longer for each that its controller made before it."""
        owners = pod["metadata"].get("ownerReferences") or []
        if not owners or not refusals:
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

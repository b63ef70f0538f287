"""The runner's few calls to the cluster that carries the run."""

import asyncio
import base64
import time
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from scaletest.errors import InstallError

RUN_LABEL = "bigfleet-scaletest-run"
RUN_CONFIG_MAP = "scaletest-run"
_CALL_SECONDS = 15
# Reasons of a container that waits for its turn.
_STARTING = frozenset({"PodInitializing", "ContainerCreating"})


class HostApi:
    """Namespace, Secrets, ConfigMaps and pods of one run. The library is synchronous, so each call takes a thread."""

    def __init__(self, kubeconfig: Path, namespace: str, run_id: str, private_dir: Path) -> None:
        self.namespace = namespace
        self._run_id = run_id
        # The library writes the administrator's key to files: they belong where the run's other keys are.
        document = yaml.safe_load(kubeconfig.read_text())
        api_client = config.new_client_from_config_dict(document, temp_file_path=str(private_dir))
        self._core = client.CoreV1Api(api_client)
        self._rbac = client.RbacAuthorizationV1Api(api_client)

    async def create_namespace(self) -> None:
        """Refuses an occupied namespace, naming the run that holds it."""
        labels = self._labels() | {"pod-security.kubernetes.io/enforce": "restricted"}
        body = {"metadata": {"name": self.namespace, "labels": labels}}
        try:
            await self._call(self._core.create_namespace, body)
        except ApiException as error:
            if error.status != 409:
                raise
            holder = (await self._call(self._core.read_namespace, self.namespace)).metadata.labels or {}
            raise InstallError(
                f"namespace {self.namespace} is occupied by run {holder.get(RUN_LABEL, 'unknown')}",
                hint=f"let it end, or remove it: kubectl delete namespace {self.namespace}",
            ) from error

    async def create_secret(self, name: str, data: dict[str, bytes]) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        await self._call(
            self._core.create_namespaced_secret, self.namespace, {"metadata": self._meta(name), "data": encoded}
        )

    async def create_config_map(self, name: str, data: dict[str, str]) -> None:
        await self._call(
            self._core.create_namespaced_config_map, self.namespace, {"metadata": self._meta(name), "data": data}
        )

    async def set_phase(self, phase: str, soak_start: float | None = None) -> None:
        """Tell the fleet where the run stands."""
        data = {"phase": phase}
        if soak_start is not None:
            data["soakStart"] = f"{soak_start:.3f}"
        await self._call(self._core.patch_namespaced_config_map, RUN_CONFIG_MAP, self.namespace, {"data": data})

    async def pods(self) -> list[Any]:
        answer = await self._call(
            self._core.list_namespaced_pod, self.namespace, label_selector=f"{RUN_LABEL}={self._run_id}"
        )
        return list(answer.items)

    async def ready_pods(self, component: str) -> int:
        """How many pods of a component are Ready."""
        return sum(
            1
            for pod in await self.pods()
            if pod.metadata.labels.get("app.kubernetes.io/component") == component and is_ready(pod)
        )

    async def pod_ip(self, name: str) -> str:
        pod = await self._call(self._core.read_namespaced_pod, name, self.namespace)
        return str(pod.status.pod_ip)

    async def log(self, pod: str, container: str, lines: int, *, previous: bool = False) -> str:
        read = self._core.read_namespaced_pod_log
        options = {"container": container, "tail_lines": lines, "previous": previous}
        return str(await self._call(read, pod, self.namespace, **options))

    async def restarts(self) -> dict[str, int]:
        """`pod/container` → how often it has ended and come back; a pod that was replaced counts from zero."""
        return {
            f"{pod.metadata.name}/{status.name}": status.restart_count
            for pod in await self.pods()
            for status in pod.status.container_statuses or []
        }

    async def delete_namespace(self, timeout_seconds: float) -> bool:
        """Delete the namespace and say whether it is gone before the time is up."""
        deadline = time.monotonic() + timeout_seconds
        try:
            await self._call(self._core.delete_namespace, self.namespace)
            while time.monotonic() < deadline:
                await self._call(self._core.read_namespace, self.namespace)
                await asyncio.sleep(0.3)
        except ApiException as error:
            return bool(error.status == 404)
        return False

    async def leftovers(self) -> list[str]:
        """What of the run is still there outside its namespace."""
        selector = f"{RUN_LABEL}={self._run_id}"
        found: list[str] = []
        for kind, function in (
            ("namespace", self._core.list_namespace),
            ("clusterrole", self._rbac.list_cluster_role),
            ("clusterrolebinding", self._rbac.list_cluster_role_binding),
        ):
            answer = await self._call(function, label_selector=selector)
            found += [f"{kind}/{item.metadata.name}" for item in answer.items]
        return found

    def _labels(self) -> dict[str, str]:
        return {RUN_LABEL: self._run_id, "app.kubernetes.io/part-of": "bigfleet-scaletest"}

    def _meta(self, name: str) -> dict[str, Any]:
        return {"name": name, "labels": self._labels()}

    async def _call(self, function: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await asyncio.to_thread(function, *arguments, _request_timeout=_CALL_SECONDS, **options)
        except HTTPError as error:
            raise InstallError(f"the host's API does not answer: {error}") from error


def is_ready(pod: Any) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or [])


def trouble_of(pod: Any) -> str:
    """What goes wrong with a pod that is not Ready yet; empty when it is just starting."""
    for status in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
        state = status.state
        if state and state.waiting and state.waiting.reason not in _STARTING:
            return f"{status.name}: {state.waiting.reason or 'waiting'} {state.waiting.message or ''}".strip()
        if state and state.terminated and state.terminated.exit_code:
            return f"{status.name}: exit code {state.terminated.exit_code}"
    return ""

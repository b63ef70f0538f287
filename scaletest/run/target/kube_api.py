"""The runner's few calls to the cluster that carries the run.

The port to the Kubernetes client: its exceptions, and urllib3's, become errors of our own here and leave it nowhere.
"""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from scaletest.errors import (
    KubeApiConflict,
    KubeApiDenied,
    KubeApiError,
    KubeApiNotFound,
    KubeApiUnreachable,
)
from scaletest.host.owners import Owner
from scaletest.model.names import RUN_CONFIG_MAP

RUN_LABEL = "bigfleet-scaletest-run"
# The process that will end the run; a namespace without it was left up on purpose.
OWNER_ANNOTATION = "bigfleet-scaletest/owner"
_CALL_SECONDS = 15
_NO_ANSWER_HINT = "run `kubectl cluster-info`, which asks it too"
# What to do when the API does not accept the credentials (401), or does not allow a call (403).
_DENIED_HINTS = {
    401: "run `kubectl auth whoami` to see whether the kubeconfig's credentials are any good",
    403: "run `scaletest-runner rbac` for the ClusterRole that a run needs",
}
# Reasons of a container that waits for its turn.
_STARTING = frozenset({"PodInitializing", "ContainerCreating"})


class KubeApi:
    """Namespace, Secrets, ConfigMaps and pods of one run. The library is synchronous, so each call takes a thread."""

    def __init__(self, kubeconfig: Path, namespace: str, run_id: str, private_dir: Path) -> None:
        self.namespace = namespace
        self.run_id = run_id
        # The library writes the administrator's key to files: they belong where the run's other keys are.
        document = yaml.safe_load(kubeconfig.read_text())
        try:
            api_client = config.new_client_from_config_dict(document, temp_file_path=str(private_dir))
        except ConfigException as error:
            raise KubeApiError(f"{kubeconfig} cannot be used: {error}", hint="run `kubectl config view`") from error
        self._core = client.CoreV1Api(api_client)
        self._rbac = client.RbacAuthorizationV1Api(api_client)
        self._authentication = client.AuthenticationV1Api(api_client)
        self._authorization = client.AuthorizationV1Api(api_client)

    async def create_namespace(self) -> None:
        labels = self._labels() | {"pod-security.kubernetes.io/enforce": "restricted"}
        annotations = {OWNER_ANNOTATION: Owner.me().text}
        body = {"metadata": {"name": self.namespace, "labels": labels, "annotations": annotations}}
        await self._call(self._core.create_namespace, body)

    async def me(self) -> str:
        """The user name by which the API knows us; `us` where it does not say."""
        try:
            answer = await self._call(self._authentication.create_self_subject_review, {})
        except KubeApiError:
            return "us"
        return str(answer.status.user_info.username)

    async def may(self, attributes: dict[str, str]) -> bool:
        """Whether the API lets us do this (the ResourceAttributes of a SelfSubjectAccessReview)."""
        body = {"spec": {"resourceAttributes": attributes}}
        answer = await self._call(self._authorization.create_self_subject_access_review, body)
        return bool(answer.status.allowed)

    async def holder(self) -> "Holder | None":
        """What occupies the namespace; None: it does not exist."""
        try:
            found = await self._call(self._core.read_namespace, self.namespace)
        except KubeApiNotFound:
            return None
        run_id = (found.metadata.labels or {}).get(RUN_LABEL, "")
        return Holder(run_id, leaving=found.metadata.deletion_timestamp is not None)

    async def disown(self) -> None:
        """Leave the namespace up without an owner, until `down` removes it."""
        body = {"metadata": {"annotations": {OWNER_ANNOTATION: None}}}
        await self._call(self._core.patch_namespace, self.namespace, body)

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
            self._core.list_namespaced_pod, self.namespace, label_selector=f"{RUN_LABEL}={self.run_id}"
        )
        return list(answer.items)

    async def all_pods(self) -> list[Any]:
        """The pods of every namespace, of any run or of none."""
        return list((await self._call(self._core.list_pod_for_all_namespaces)).items)

    async def ready_pods(self, component: str) -> int:
        """How many pods of a component are Ready."""
        return sum(1 for pod in await self.pods() if component_of(pod) == component and is_ready(pod))

    async def pod_ip(self, name: str) -> str:
        pod = await self._call(self._core.read_namespaced_pod, name, self.namespace)
        return str(pod.status.pod_ip)

    async def log(self, pod: str, container: str, lines: int, *, previous: bool = False) -> str:
        read = self._core.read_namespaced_pod_log
        options = {"container": container, "tail_lines": lines, "previous": previous}
        return str(await self._call(read, pod, self.namespace, **options))

    async def lives(self) -> "dict[str, ContainerLife]":
        """`pod/container` → which life of it this is."""
        return {
            f"{pod.metadata.name}/{status.name}": ContainerLife(
                component_of(pod), str(pod.metadata.uid), status.restart_count, _last_exit_code(status)
            )
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
        except KubeApiNotFound:
            return True
        return False

    async def runs(self, run_id: str = "") -> "dict[str, RunObjects]":
        """Every run that has something on this cluster, or one of them: its namespaces and what is outside of them."""
        selector = f"{RUN_LABEL}={run_id}" if run_id else RUN_LABEL
        found: dict[str, RunObjects] = {}
        for kind, (read, _) in self._cluster_kinds().items():
            for item in (await self._call(read, label_selector=selector)).items:
                run = found.setdefault(item.metadata.labels[RUN_LABEL], RunObjects())
                if kind != "namespace":
                    run.objects.append((kind, item.metadata.name))
                    continue
                run.namespaces.append(item.metadata.name)
                run.owner = (item.metadata.annotations or {}).get(OWNER_ANNOTATION, "")
        return found

    async def delete_cluster_objects(self) -> None:
        """Delete what the run has outside of its namespace, whether or not a release still knows it."""
        ours = (await self.runs(self.run_id)).get(self.run_id, RunObjects())
        for kind, name in ours.objects:
            with suppress(KubeApiNotFound):
                await self._call(self._cluster_kinds()[kind][1], name)

    async def leftovers(self) -> list[str]:
        """What of the run is still there."""
        return list((await self.runs(self.run_id)).get(self.run_id, RunObjects()).names())

    def _cluster_kinds(self) -> dict[str, tuple[Any, Any]]:
        """What a run may have outside of its namespace: how to list it, and how to delete it."""
        return {
            "namespace": (self._core.list_namespace, self._core.delete_namespace),
            "clusterrole": (self._rbac.list_cluster_role, self._rbac.delete_cluster_role),
            "clusterrolebinding": (self._rbac.list_cluster_role_binding, self._rbac.delete_cluster_role_binding),
        }

    def _labels(self) -> dict[str, str]:
        return {RUN_LABEL: self.run_id, "app.kubernetes.io/part-of": "bigfleet-scaletest"}

    def _meta(self, name: str) -> dict[str, Any]:
        return {"name": name, "labels": self._labels()}

    async def _call(self, function: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await asyncio.to_thread(function, *arguments, _request_timeout=_CALL_SECONDS, **options)
        except (HTTPError, ApiException) as error:
            raise error_of(error) from error


@dataclass(frozen=True)
class ContainerLife:
    """A container of a run: what it is part of, and how often it has ended."""

    component: str
    # Of its pod; another one is another pod, which counts its restarts from zero.
    uid: str
    restarts: int
    # With which its last life ended; None if it never did.
    exit_code: int | None = None


def _last_exit_code(status: Any) -> int | None:
    ended = status.last_state.terminated if status.last_state else None
    return None if ended is None else int(ended.exit_code)


@dataclass(frozen=True)
class Holder:
    """What occupies a namespace."""

    # Empty: it belongs to no run.
    run_id: str
    # It is being deleted.
    leaving: bool


@dataclass
class RunObjects:
    """What one run has on a cluster."""

    namespaces: list[str] = field(default_factory=list)
    objects: list[tuple[str, str]] = field(default_factory=list)
    # `Owner.text`; empty if it was left up on purpose, or has no namespace any more.
    owner: str = ""

    def names(self) -> Iterator[str]:
        yield from (f"namespace/{name}" for name in self.namespaces)
        yield from (f"{kind}/{name}" for kind, name in self.objects)


def error_of(error: HTTPError | ApiException) -> KubeApiError:
    """The error of ours that says what the client's exception says."""
    if isinstance(error, HTTPError):
        return KubeApiUnreachable(f"the Kubernetes API does not answer: {_last_words(error)}", hint=_NO_ANSWER_HINT)
    said = _message(error)
    if not error.status:  # how the client wraps a TLS handshake that failed
        return KubeApiUnreachable(f"the Kubernetes API does not answer: {said}", hint=_NO_ANSWER_HINT)
    if error.status in _DENIED_HINTS:
        return KubeApiDenied(f"the Kubernetes API denied the request: {said}", hint=_DENIED_HINTS[error.status])
    kind = {404: KubeApiNotFound, 409: KubeApiConflict}.get(error.status, KubeApiError)
    return kind(f"the Kubernetes API answered {error.status}: {said}")


def _last_words(error: HTTPError) -> str:
    """The cause, without the connection pool, the URL and the retries around it."""
    return str(getattr(error, "reason", None) or error).rpartition(": ")[2]


def _message(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return " ".join(str(error.reason).split())


def component_of(pod: Any) -> str:
    """Which part of a run it is; empty for what is none."""
    return str((pod.metadata.labels or {}).get("app.kubernetes.io/component", ""))


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

"""The rights that a run needs on an existing cluster: checked before the run creates anything there."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scaletest.errors import KubeApiDenied, KubeApiError, KubeApiUnreachable
from scaletest.run.target.kube_api import KubeApi

_RBAC = "rbac.authorization.k8s.io"
_MANAGE = ("get", "list", "create", "patch", "delete")
_AT_ONCE = 16
_MOST_SHOWN = 6


@dataclass(frozen=True)
class Right:
    """Verbs on one resource; `pods/log` is a subresource."""

    resource: str
    verbs: tuple[str, ...]
    group: str = ""
    # False: over the whole cluster.
    namespaced: bool = True

    def attributes(self, namespace: str) -> Iterator[dict[str, str]]:
        """As a SelfSubjectAccessReview asks for them, one by one."""
        resource, _, subresource = self.resource.partition("/")
        asked = {"group": self.group, "resource": resource, "subresource": subresource}
        if self.namespaced:
            asked["namespace"] = namespace
        for verb in self.verbs:
            yield asked | {"verb": verb}


# For the runner's calls, and Helm's. The apiserver lets a user create a Role only with rights that the user has, hence
# the TokenReviews (the issuer's).
RIGHTS = (
    Right("namespaces", _MANAGE, namespaced=False),
    Right("clusterroles", _MANAGE, _RBAC, namespaced=False),
    Right("clusterrolebindings", _MANAGE, _RBAC, namespaced=False),
    Right("tokenreviews", ("create",), "authentication.k8s.io", namespaced=False),
    Right("secrets", (*_MANAGE, "update")),
    Right("configmaps", (*_MANAGE, "watch")),
    Right("services", _MANAGE),
    Right("serviceaccounts", _MANAGE),
    Right("statefulsets", (*_MANAGE, "watch"), "apps"),
    Right("roles", _MANAGE, _RBAC),
    Right("rolebindings", _MANAGE, _RBAC),
    Right("networkpolicies", _MANAGE, "networking.k8s.io"),
    Right("pods", ("get", "list", "watch")),
    Right("pods/log", ("get",)),
)
FORWARDING = Right("pods/portforward", ("create",))


def cluster_role() -> dict[str, Any]:
    """All rights, for an administrator to grant. A ClusterRole, because a run makes its own namespace."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "bigfleet-scaletest-runner"},
        "rules": [
            {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
            for right in [*RIGHTS, FORWARDING]
        ],
    }


async def refuse_without_rights(api: KubeApi, context: str, *, forwards: bool) -> None:
    """Raises KubeApiDenied, with all that is missing, where the cluster would stop a run halfway."""
    rights = [*RIGHTS, *([FORWARDING] if forwards else [])]
    asked = [attributes for right in rights for attributes in right.attributes(api.namespace)]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def missing(attributes: dict[str, str]) -> str:
        async with turns:
            return "" if await api.may(attributes) else _in_words(attributes)

    try:
        found = [words for words in await asyncio.gather(*map(missing, asked)) if words]
    except (KubeApiUnreachable, KubeApiDenied):
        raise
    except KubeApiError as error:
        raise KubeApiError(
            f"context {context} does not say what the runner may do there: {error.message}",
            hint=f"run `kubectl --context {context} auth can-i create namespaces`",
        ) from error
    if found:
        more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        raise KubeApiDenied(
            f"context {context} does not let {await api.me()} {', '.join(found[:_MOST_SHOWN])}{more}",
            hint="run `scaletest-runner rbac` for the ClusterRole that a run needs; "
            f"`kubectl auth can-i --list --context {context}` lists the rights that you have",
        )


def _in_words(attributes: dict[str, str]) -> str:
    names = [attributes["resource"], attributes["group"]]
    resource = ".".join(name for name in names if name) + ("/" if attributes["subresource"] else "")
    return f"{attributes['verb']} {resource}{attributes['subresource']}"

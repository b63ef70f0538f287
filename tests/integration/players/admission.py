"""The apiserver's own admission refuses what it is told to, as a webhook does that has lost its server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

from bigfleet.kube import KubeClient, KubeError, Resource
from tests.integration.players.apiserver import eventually

GROUP = "admissionregistration.k8s.io"
POLICIES = Resource("validatingadmissionpolicies", GROUP, namespaced=False)
BINDINGS = Resource("validatingadmissionpolicybindings", GROUP, namespaced=False)


@asynccontextmanager
async def refusing(
    kube: KubeClient,
    resource: Resource,
    operation: Literal["CREATE", "UPDATE"],
    attempt: Callable[[], Awaitable[object]],
) -> AsyncIterator[None]:
    """Nothing of this kind is created or changed meanwhile; `attempt` is one try of it, which may succeed at first."""
    name = f"no-{operation.lower()}-of-{resource.plural}.tests"
    kind = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": name}}
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [resource.plural],
        "operations": [operation],
    }
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    await kube.create(POLICIES, kind | {"kind": "ValidatingAdmissionPolicy", "spec": policy})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    await kube.create(BINDINGS, kind | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binding})

    async def in_force() -> bool:
        try:
            await attempt()
        except KubeError as refusal:
            return name in str(refusal)
        return False

    try:
        assert await eventually(in_force)
        yield
    finally:
        for resource_of_it in (BINDINGS, POLICIES):
            await kube.delete(resource_of_it, name)


async def refusals(kube: KubeClient) -> float:
    """How often it has refused anything so far."""
    lines = (await kube.raw("GET", "/metrics")).decode().splitlines()
    series = "apiserver_validating_admission_policy_check_total"
    denied = [line for line in lines if line.startswith(series) and 'enforcement_action="deny"' in line]
    return sum(float(line.split()[-1]) for line in denied)

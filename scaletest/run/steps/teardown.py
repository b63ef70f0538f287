"""Takes the fleet down: the release, what is outside of the namespace, the namespace, and a look at what is left."""

import asyncio

from kubernetes.client.exceptions import ApiException

from scaletest.errors import ScaletestError
from scaletest.run.target.helm import Helm
from scaletest.run.target.kube_api import HostApi


async def remove_release(helm: Helm, api: HostApi, timeout_seconds: float) -> list[str]:
    """Remove everything of the run from its cluster; returns what is still there, and why.

    A namespace that is not this run's is not touched, even if the run meant to have it.
    """
    trouble: list[str] = []
    try:
        async with asyncio.timeout(timeout_seconds):
            holder = await api.holder()
            ours = holder is not None and holder.run_id == api.run_id
            if ours:
                try:
                    await helm.uninstall(timeout_seconds)
                except ScaletestError as error:  # what Helm can't remove has labels, and goes with them
                    trouble.append(error.message)
            await api.delete_cluster_objects()
            if ours:
                await api.delete_namespace(timeout_seconds)
    except TimeoutError:
        trouble.append("out of time")
    except ApiException as error:
        trouble.append(f"the API said {error.status} {error.reason}")
    try:
        left = await api.leftovers()
    except ApiException as error:  # the API did not list it, so it may still be there
        left = [f"namespace/{api.namespace} (the API said {error.status} {error.reason} when we looked)"]
    return [*left, *trouble] if left else []

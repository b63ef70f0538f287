"""Takes the fleet down: the release, what is outside of the namespace, the namespace, and a look at what is left."""

import asyncio

from scaletest.errors import KubeApiDenied, KubeApiError, KubeApiUnreachable, ScaletestError
from scaletest.run.target.helm import Helm
from scaletest.run.target.kube_api import KubeApi


async def remove_release(helm: Helm, api: KubeApi, timeout_seconds: float) -> list[str]:
    """Remove everything of the run from its cluster; returns what is still there, and why.

    Raises KubeApiUnreachable or KubeApiDenied where the API says nothing about that.
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
    except (KubeApiUnreachable, KubeApiDenied):
        raise
    except KubeApiError as error:
        trouble.append(error.message)
    try:
        left = await api.leftovers()
    except (KubeApiUnreachable, KubeApiDenied):
        raise
    except KubeApiError as error:  # the API did not list it, so it may still be there
        left = [f"namespace/{api.namespace} ({error.message}, when it was looked for)"]
    return [*left, *trouble] if left else []

"""Whether a namespace is free for a run, and the cluster free of what former runs left."""

from scaletest.errors import UsageError
from scaletest.run.target.kube_api import KubeApi

TAKE_ANOTHER = "--namespace NAME takes another one"


def belongs_to_no_run(namespace: str) -> str:
    return f"namespace {namespace} exists, and belongs to no run"


async def refuse_occupied(api: KubeApi, gc_command: str) -> None:
    """Refuse a namespace that exists, and what former runs left outside of theirs: with these an install fails later.

    Raises UsageError: nothing was started, and another --namespace may do.
    """
    if holder := await api.holder():
        if not holder.run_id:
            raise UsageError(belongs_to_no_run(api.namespace), hint=TAKE_ANOTHER)
        if holder.leaving:
            raise UsageError(
                f"namespace {api.namespace} of run {holder.run_id} is still being removed",
                hint=f"wait for it; {TAKE_ANOTHER}",
            )
        raise UsageError(
            f"namespace {api.namespace} is occupied by run {holder.run_id}",
            hint=f"run `{gc_command} --run {holder.run_id}` unless its runner lives; {TAKE_ANOTHER}",
        )
    homeless = {run_id: run for run_id, run in (await api.runs()).items() if not run.namespaces}
    if homeless:
        left = ", ".join(f"{name} (run {run_id})" for run_id, run in homeless.items() for name in run.names())
        raise UsageError(f"a former run left something behind: {left}", hint=f"run `{gc_command} --all`")

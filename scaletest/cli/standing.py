"""What `status` tells of a stage: how it stands, and commands that can be pasted to look into it."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaletest.cli.showing import age, command
from scaletest.model.counting import counted

if TYPE_CHECKING:
    from scaletest.run.fleet.status import Standing


def stage_lines(one: "Standing") -> list[str]:
    """One stage, for people: what it is, and the commands to look at it and to remove it."""
    head = f"{one.run_id}  up for {age(one.since)}, pods ready {one.pods_text}"
    rows = [*_where(one), *_metrics(one), *_bigfleet(one), _end(one)]
    return [head, *(f"  {title:<9} {text}" for title, text in rows)]


def _where(one: "Standing") -> Iterator[tuple[str, str]]:
    runner = command("scaletest-runner")
    kubectl = command("kubectl", otherwise=f"$({runner} tools path kubectl)")
    kubeconfig = f"$({runner} host kubeconfig {one.host_id})" if one.host_id else shlex.quote(str(one.kubeconfig))
    yield "where", f"host {one.host_id} on {one.where}, this machine" if one.host_id else f"context {one.where}"
    yield "pods", f"export KUBECONFIG={kubeconfig}; {kubectl} -n {one.namespace} get pods"
    if clusters := one.clusters():
        reach = f"; {runner} host kubeconfig {one.host_id} --cluster 0" if one.host_id else ""
        yield "clusters", f"{counted(len(clusters), 'KWOK cluster')}{reach}"


def _metrics(one: "Standing") -> Iterator[tuple[str, str]]:
    if one.prometheus_url:
        ask = f"curl --cacert ca.crt --cert tls.crt --key tls.key '{one.prometheus_url}/api/v1/query?query=up'"
        yield "metrics", f"(cd {_identity(one)} && {ask})"
    elif one.has_prometheus:
        yield "metrics", f"kubectl -n {one.namespace} port-forward prometheus-0 9090"


def _bigfleet(one: "Standing") -> Iterator[tuple[str, str]]:
    """Every process listens on its pod's address alone (ADR-14), which is this machine's on the embedded host only."""
    ctl, identity = command("bigfleetctl"), _identity(one)
    if coordinators := one.coordinators():
        where = f"BIGFLEET_COORDINATOR={','.join(coordinators)} BIGFLEET_TLS_DIR={identity}"
        yield "bigfleet", f"export {where}; {ctl} get shards"
    elif one.pods and not one.host_id:
        yield "bigfleet", f"it answers inside of the cluster only; bigfleetctl --tls-dir {identity} has the credentials"
    if shard := one.address("bigfleet-shard-0", 7780):
        ask = f"{ctl} why --cluster kwok-cluster-0 --shard-addr {shard} --tls-dir {identity}"
        yield "pending", f"{ask}   # why Pods wait"
    if provider := one.address("bigfleet-provider-0", 7800):
        strike = f"{command('bigfleet')} faults --target {provider} --tls-dir {identity} --strike vanish"
        yield "faults", f"{strike}   # a machine is gone"


def _end(one: "Standing") -> tuple[str, str]:
    if one.owner:
        return "runner", f"process {one.owner.pid} ends it"
    return "remove", f"{command('scaletest-runner')} down {one.run_id}"


def _identity(one: "Standing") -> str:
    return shlex.quote(str(one.identity))


def stage_document(one: "Standing") -> dict[str, object]:
    """The same for programs."""
    return {
        "run": one.run_id,
        "host": one.host_id or None,
        "where": one.where,
        "since": one.since,
        "ownerPid": one.owner.pid if one.owner else None,
        "namespace": one.namespace,
        "pods": one.pods_text,
        "kubeconfig": str(one.kubeconfig),
        "tlsDir": str(one.identity),
        "prometheus": one.prometheus_url or None,
        "coordinators": one.coordinators(),
        "clusters": one.clusters(),
    }

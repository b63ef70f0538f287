"""What `status` tells of a fleet: its pods, and commands that can be pasted to look into it."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaletest.cli.showing import age, command
from scaletest.model.counting import counted
from scaletest.model.names import PROMETHEUS_POD, PROMETHEUS_PORT, PROVIDER_POD, PROVIDER_PORT, SHARD_POD, SHARD_PORT
from scaletest.report.fitting import fitted, pasteable

if TYPE_CHECKING:
    from scaletest.run.fleet.status import FleetStatus


def status_lines(one: "FleetStatus") -> list[str]:
    """One fleet, for people: what it is, and the commands to look at it and to remove it."""
    head = f"{one.run_id}  up for {age(one.since)}, pods ready {one.pods_text}"
    rows = [*_where(one), *_metrics(one), *_bigfleet(one), _end(one)]
    return [*fitted([head]), *(line for row in rows for line in row)]


def _words(title: str, text: str) -> list[str]:
    return fitted([f"  {title:<9} {text}"])


def _command(title: str, text: str) -> list[str]:
    return pasteable(f"  {title:<9} ", text)


def _where(one: "FleetStatus") -> Iterator[list[str]]:
    runner = command("scaletest-runner")
    kubectl = command("kubectl", otherwise=f"$({runner} tools path kubectl)")
    kubeconfig = f"$({runner} host kubeconfig {one.host_id})" if one.host_id else shlex.quote(str(one.kubeconfig))
    yield _words("where", f"host {one.host_id} on {one.where}, this machine" if one.host_id else f"context {one.where}")
    yield _command("pods", f"export KUBECONFIG={kubeconfig}; {kubectl} -n {one.namespace} get pods")
    if clusters := one.clusters():
        reach = f"; {runner} host kubeconfig {one.host_id} --cluster 0" if one.host_id else ""
        yield _words("clusters", f"{counted(len(clusters), 'KWOK cluster')}{reach}")


def _metrics(one: "FleetStatus") -> Iterator[list[str]]:
    if one.prometheus_url:
        ask = f"curl --cacert ca.crt --cert tls.crt --key tls.key '{one.prometheus_url}/api/v1/query?query=up'"
        yield _command("metrics", f"(cd {_identity(one)} && {ask})")
    elif one.has_prometheus:
        yield _command("metrics", f"kubectl -n {one.namespace} port-forward {PROMETHEUS_POD} {PROMETHEUS_PORT}")


def _bigfleet(one: "FleetStatus") -> Iterator[list[str]]:
    """Every process listens on its pod's address alone (ADR-14), which is this machine's on the embedded host only."""
    ctl, identity = command("bigfleetctl"), _identity(one)
    if coordinators := one.coordinators():
        where = f"BIGFLEET_COORDINATOR={','.join(coordinators)} BIGFLEET_TLS_DIR={identity}"
        yield _command("bigfleet", f"export {where}; {ctl} get shards")
    elif one.pods and not one.host_id:
        has = f"bigfleetctl --tls-dir {identity} has the credentials"
        yield _words("bigfleet", f"it answers inside of the cluster only; {has}")
    if shard := one.address(SHARD_POD, SHARD_PORT):
        ask = f"{ctl} why --cluster kwok-cluster-0 --shard-addr {shard} --tls-dir {identity}"
        yield _command("pending", f"{ask}  # why Pods wait")
    if provider := one.address(PROVIDER_POD, PROVIDER_PORT):
        strike = f"{command('bigfleet')} faults --target {provider} --tls-dir {identity} --strike vanish"
        yield _command("faults", f"{strike}  # a machine is gone")


def _end(one: "FleetStatus") -> list[str]:
    if one.owner:
        return _words("runner", f"process {one.owner.pid} ends it")
    return _command("remove", f"{command('scaletest-runner')} down {one.run_id}")


def _identity(one: "FleetStatus") -> str:
    return shlex.quote(str(one.identity))


def status_document(one: "FleetStatus") -> dict[str, object]:
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

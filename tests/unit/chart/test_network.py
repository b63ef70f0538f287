"""Who may talk to whom: the NetworkPolicies let through exactly what the pods need, and nothing else."""

import re
from itertools import product
from typing import Any

import pytest

from scaletest.cluster.workload import shard_of
from tests.golden.pods import Workload, environment, workloads
from tests.golden.rendering import NAMESPACE, RUN_ID, Object, merged, plan_values, render
from tests.golden.variants import VARIANTS, objects_of, pods_of

WITH_POLICIES = tuple(name for name in VARIANTS if name != "as little as possible")
METRICS_PORTS = {
    "issuer": {8810},
    "coordinator": {8790},
    "shard": {8780},
    "provider": {8800},
    "kwok-cluster": {8770, 8771, 8773, 8775, 8776},
}
# The table of flows (ADR-13), written down a second time.
FLOWS = {
    *(
        (source, "issuer", 7810)
        for source in ("coordinator", "shard", "provider", "kwok-cluster", "prometheus", "grafana")
    ),
    ("kwok-cluster", "shard", 7780),
    ("kwok-cluster", "provider", 7800),
    ("shard", "provider", 7800),
    ("shard", "coordinator", 7790),
    ("coordinator", "coordinator", 7790),
    ("coordinator", "coordinator", 7791),
    ("grafana", "prometheus", 9090),
    *(("prometheus", target, port) for target, ports in METRICS_PORTS.items() for port in ports),
}

Labels = dict[str, str]


def selects(selector: Object, labels: Labels) -> bool:
    """A Kubernetes label selector."""
    operators: dict[str, Any] = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        operators[term["operator"]](labels.get(term["key"]), term["values"])
        for term in selector.get("matchExpressions", [])
    )


def policies(variant: str) -> list[Object]:
    return [one for one in objects_of(variant) if one["kind"] == "NetworkPolicy"]


def lets(variant: str, direction: str, here: Labels, peer: Labels, port: int) -> bool:
    """Whether the policies of one side let a TCP connection between two pods pass."""
    kind, word = {"Egress": ("egress", "to"), "Ingress": ("ingress", "from")}[direction]
    judging = [
        policy["spec"]
        for policy in policies(variant)
        if direction in policy["spec"]["policyTypes"] and selects(policy["spec"]["podSelector"], here)
    ]
    return not judging or any(
        {"protocol": "TCP", "port": port} in rule["ports"]
        and (word not in rule or any("podSelector" in one and selects(one["podSelector"], peer) for one in rule[word]))
        for policy in judging
        for rule in policy.get(kind, [])
    )


def may_connect(variant: str, source: Labels, target: Labels, port: int) -> bool:
    return lets(variant, "Egress", source, target, port) and lets(variant, "Ingress", target, source, port)


def labels_of(component: str, run: str = RUN_ID) -> Labels:
    return {"app.kubernetes.io/component": component, "bigfleet-scaletest-run": run}


@pytest.mark.parametrize("variant", WITH_POLICIES)
def test_exactly_the_flows_of_the_design_pass(variant: str) -> None:
    components = {"issuer", "coordinator", "shard", "provider", "kwok-cluster", "prometheus", "grafana"}
    # Ports that somebody listens on, and some that nobody should reach: etcd, the clusters' apiservers, snapshots.
    ports = {port for _, _, port in FLOWS} | {2379, 2380, 3000, 6443, 7792, 9091, 10257}
    passing = {
        (source, target, port)
        for source, target, port in product(components, components, ports)
        if may_connect(variant, labels_of(source), labels_of(target), port)
    }
    assert passing == FLOWS


def test_pods_of_another_run_and_of_nobody_are_kept_out() -> None:
    for _, target, port in FLOWS:
        for stranger in (labels_of("shard", run="another"), labels_of("kwok-cluster", run="another"), {}):
            assert not lets("dev-50", "Ingress", labels_of(target), stranger, port)


def test_a_stranger_in_the_namespace_reaches_nobody() -> None:
    assert not any(lets("dev-50", "Egress", {}, labels_of(target), port) for _, target, port in FLOWS)


def test_a_label_on_a_pod_cuts_one_flow_of_it() -> None:
    shard, cut = labels_of("shard"), {**labels_of("shard"), "scaletest.bigfleet/cut-off-from": "coordinator"}
    assert may_connect("dev-50", shard, labels_of("coordinator"), 7790)
    assert not may_connect("dev-50", cut, labels_of("coordinator"), 7790)
    assert may_connect("dev-50", cut, labels_of("provider"), 7800)


def test_names_are_looked_up_by_everyone_and_the_hosts_api_by_few() -> None:
    found = {policy["metadata"]["name"]: policy["spec"] for policy in policies("everything")}
    assert found["default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert found["dns"]["podSelector"] == {}
    assert found["dns"]["egress"] == [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}]
    with_token = {pod.component for pod in pods_of("everything").values() if "host-api" in str(pod.spec)}
    components = (*METRICS_PORTS, "prometheus", "grafana")
    allowed = {name for name in components if selects(found["host-api"]["podSelector"], labels_of(name))}
    assert allowed == with_token
    (rule,) = found["host-api"]["egress"]
    assert rule == {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"protocol": "TCP", "port": 6443}]}


def test_your_own_prometheus_may_scrape_and_nothing_more() -> None:
    yours = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    opened = {
        port["port"]
        for policy in policies("everything")
        for rule in policy["spec"].get("ingress", [])
        if yours in rule["from"]
        for port in rule["ports"]
    }
    assert opened == set().union(*METRICS_PORTS.values())


PEER = re.compile(rf"(?P<pod>[a-z-]+-(?P<ordinal>\d+))\.(?P<service>[a-z-]+)\.{NAMESPACE}\.svc:(?P<port>\d+)")


def peers(pods: dict[str, Workload]) -> list[tuple[Workload, Workload, int]]:
    """(who, whom, port) of every address in an environment variable; fails on one that leads nowhere."""
    found = []
    for pod in pods.values():
        for container in pod.all_containers:
            for name, value in environment(container).items():
                if ".svc" not in value or name == "ADVERTISE_ADDR":
                    continue
                for address in value.split(","):
                    match = PEER.fullmatch(address.rpartition("=")[2])
                    assert match, f"{container['name']}: {name}={value}"
                    target = pods[match["pod"].rpartition("-")[0]]
                    assert int(match["ordinal"]) < target.replicas
                    assert match["service"] == target.service
                    found.append((pod, target, int(match["port"])))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_peer_exists_listens_and_may_be_reached(variant: str) -> None:
    found = peers(pods_of(variant))
    assert found
    for source, target, port in found:
        assert port in target.ports
        # A cluster only tries whether a coordinator refuses it, where nothing else keeps it away.
        is_a_probe = (source.name, target.name) == ("kwok-cluster", "bigfleet-coordinator")
        assert may_connect(variant, source.labels, target.labels, port) != is_a_probe, (source.name, target.name, port)


@pytest.mark.parametrize("variant", VARIANTS)
def test_peers_stand_in_environment_variables_and_nowhere_else(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.all_containers:
            words = " ".join([*container.get("command", []), *container.get("args", [])])
            assert ".svc" not in words
            assert set(re.findall(r"\$\((\w+)\)", words)) <= environment(container).keys()


# Where `kubectl port-forward` arrives (ADR-14); the runner switches it off on the embedded host.
OWN_LOOPBACK = {
    "prometheus": {"--web.listen-address=127.0.0.1:9090", "--listen=127.0.0.1:9091"},
    "bigfleet-provider": {"--also-listen=127.0.0.1:7800"},
}

PODS_ADDRESS = {
    "prometheus": {"--web.listen-address=$(POD_IP):9090", "--listen=$(POD_IP):9091"},
    "bigfleet-provider": {"--listen=$(POD_IP):7800"},
}


def binds(container: Object, port: int) -> bool:
    """Whether the process is told to listen on the pod's address; the workload's four are told the address alone."""
    arguments = container.get("args", [])
    return f"$(POD_IP):{port}" in str(arguments) or "--pod-ip=$(POD_IP)" in arguments


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_process_binds_the_pods_own_address(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.all_containers:
            arguments = set(container.get("args", [])) - OWN_LOOPBACK.get(pod.name, set())
            assert not [one for one in arguments if re.search(r"=[^$]*:\d+$", one)]
            assert "0.0.0.0" not in str(arguments)
            ports = [port["containerPort"] for port in container.get("ports", [])]
            # Grafana never runs where pods share a loopback, and has one address to listen on: all (ADR-14).
            assert all(binds(container, port) for port in ports) or container["name"] == "grafana"


def test_kubectl_port_forward_arrives_where_pods_have_a_loopback_of_their_own() -> None:
    for switch in (True, False):
        objects = render(merged(plan_values("smoke"), {"portForward": switch}))
        for name, own in OWN_LOOPBACK.items():
            containers = workloads(objects)[name].containers
            arguments = {argument for container in containers for argument in container["args"]}
            assert arguments & own == (own if switch else set())
            assert arguments >= PODS_ADDRESS[name]


@pytest.mark.parametrize("variant", VARIANTS)
def test_cluster_n_belongs_to_shard_n_modulo_their_number(variant: str) -> None:
    pods = pods_of(variant)
    addresses = environment(pods["kwok-cluster"].containers[1])["SHARD_ADDRS"]
    shards = pods["bigfleet-shard"].replicas
    for cluster in range(pods["kwok-cluster"].replicas):
        wanted = f"bigfleet-shard-{cluster % shards}.bigfleet-shard-headless.{NAMESPACE}.svc:7780"
        assert shard_of(f"kwok-cluster-{cluster}", addresses) == wanted

"""What holds for every object and every pod of the chart, whatever the values."""

import re
from typing import Any

import pytest

from bigfleet.core.quantity import parse_milli
from bigfleet.security.entitlement import KIND_OF_SERVICE_ACCOUNT
from tests.golden.pods import pod_security_violations, workloads
from tests.golden.rendering import NAMESPACE, RUN_ID, Object, helm_template, merged, plan_values, render
from tests.golden.variants import VARIANTS, objects_of, pods_of, values_of

CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding"}
# Only clients of the run's CA are answered there, so a kubelet can't tell a hung one from a busy one.
NEVER_FOUND_DEAD = {"prometheus", "snapshots"}

everywhere = pytest.mark.parametrize("variant", VARIANTS)


@everywhere
def test_every_object_tells_its_run_and_its_part(variant: str) -> None:
    objects = objects_of(variant)
    claims = [claim for one in objects for claim in one.get("spec", {}).get("volumeClaimTemplates", [])]
    templates = [one["spec"]["template"] for one in objects if one["kind"] == "StatefulSet"]
    for found in [*objects, *claims, *templates]:
        labels = found["metadata"]["labels"]
        assert labels["bigfleet-scaletest-run"] == RUN_ID
        assert labels["app.kubernetes.io/part-of"] == "bigfleet-scaletest"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"].startswith("bigfleet-scaletest-")
        assert labels["app.kubernetes.io/component"]


@everywhere
def test_two_runs_can_share_a_cluster(variant: str) -> None:
    for found in objects_of(variant):
        if found["kind"] in CLUSTER_SCOPED:
            assert found["metadata"]["name"].endswith(NAMESPACE)
        else:
            assert found["metadata"]["namespace"] == NAMESPACE
    here, there = (helm_template(values_of(variant), namespace) for namespace in ("stage-one", "stage-two"))
    assert here.replace("stage-one", "stage-two") == there
    assert f".{NAMESPACE}." not in there


@everywhere
def test_no_object_is_rendered_twice(variant: str) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in objects_of(variant)]
    assert sorted(names) == sorted(set(names))


@everywhere
def test_pods_keep_to_pod_security_restricted(variant: str) -> None:
    for pod in pods_of(variant).values():
        assert pod_security_violations(pod.spec) == []


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        ({"hostNetwork": True}, "hostNetwork is set"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "volume v is a hostPath"),
        ({"securityContext": {}}, "container shard: may run as root"),
        ({"securityContext": {"runAsNonRoot": True}}, "container shard: has no seccomp profile"),
    ],
)
def test_the_rules_of_pod_security_would_find_a_breach(change: Object, violation: str) -> None:
    assert violation in pod_security_violations({**pods_of("dev-50")["bigfleet-shard"].spec, **change})


@everywhere
def test_containers_write_only_where_a_volume_is(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.all_containers:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


@everywhere
def test_the_python_processes_with_client_keys_have_scratch_space_in_memory(variant: str) -> None:
    pod = pods_of(variant)["kwok-cluster"]
    assert {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}} in pod.spec["volumes"]
    for container in pod.containers:
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


@everywhere
def test_no_token_is_mounted_that_nobody_asked_for(variant: str) -> None:
    accounts = [one for one in objects_of(variant) if one["kind"] == "ServiceAccount"]
    assert len(accounts) == len(pods_of(variant))
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    for pod in pods_of(variant).values():
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["enableServiceLinks"] is False
        assert pod.spec["terminationGracePeriodSeconds"] >= 10


@everywhere
def test_every_container_says_what_it_takes(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.all_containers:
            for name in ("cpu", "memory"):
                request, limit = (str(container["resources"][kind][name]) for kind in ("requests", "limits"))
                assert 0 < parse_milli(request) <= parse_milli(limit), container["name"]


@everywhere
def test_every_volume_is_there_and_used(variant: str) -> None:
    objects = objects_of(variant)
    claims = {
        one["metadata"]["name"]: {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
        for one in objects
        if one["kind"] == "StatefulSet"
    }
    for pod in pods_of(variant).values():
        there = {volume["name"] for volume in pod.spec["volumes"]} | claims[pod.name]
        assert {mount["name"] for one in pod.all_containers for mount in one["volumeMounts"]} == there


@everywhere
def test_every_process_is_asked_whether_it_started_is_ready_and_lives(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.containers:
            name = container["name"]
            assert {"startupProbe", "readinessProbe"} <= container.keys(), name
            assert ("livenessProbe" in container) == (name not in NEVER_FOUND_DEAD)
            ports = {port["containerPort"] for port in container["ports"]}
            for probe in (container[kind] for kind in container if kind.endswith("Probe")):
                assert probe.get("httpGet", probe.get("tcpSocket"))["port"] in ports, name


@everywhere
def test_a_busy_process_is_never_taken_for_a_dead_one(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.containers:
            if probe := container.get("livenessProbe"):
                assert probe["timeoutSeconds"] >= 10
                assert probe["periodSeconds"] * probe["failureThreshold"] >= 180
                # A process that waits for its peers is not ready, but it lives.
                assert probe["httpGet"]["path"] in ("/healthz", "/api/health")
                assert container["startupProbe"]["httpGet"] == probe["httpGet"]


@everywhere
def test_images_are_pinned(variant: str) -> None:
    for pod in pods_of(variant).values():
        for container in pod.all_containers:
            assert re.fullmatch(r"\S+(:[\w.-]+|@sha256:[0-9a-f]{64})", container["image"])
            assert not container["image"].endswith(":latest")


def test_a_digest_wins_over_the_tag_and_a_mirror_stands_before_all() -> None:
    images = {one["image"] for pod in pods_of("everything").values() for one in pod.all_containers}
    assert f"mirror.example/team/bigfleet@sha256:{'a' * 64}" in images
    assert "mirror.example/team/bigfleet-scaletest:dev" in images
    assert all(image.startswith("mirror.example/team/") for image in images)
    secrets = [pod.spec["imagePullSecrets"] for pod in pods_of("everything").values()]
    assert secrets == [[{"name": "mirror-login"}]] * len(secrets)


def test_the_default_images_are_those_of_the_runbook() -> None:
    images = {one["image"] for pod in pods_of("dev-50").values() for one in pod.all_containers}
    assert {"bigfleet:dev", "bigfleet-scaletest:dev"} <= images


@everywhere
def test_no_secret_passes_through_the_chart(variant: str) -> None:
    objects = objects_of(variant)
    assert not [one for one in objects if one["kind"] == "Secret"]
    assert "PRIVATE KEY" not in str(objects)
    for pod in pods_of(variant).values():
        for container in pod.all_containers:
            assert not [arg for arg in container.get("args", []) if re.search(r"(password|secret|token)=", arg, re.I)]
            for entry in container.get("env", []):
                if re.search(r"PASSWORD|SECRET|TOKEN|_KEY", entry["name"]):
                    # A path to it, or a switch.
                    assert entry["name"].endswith("__FILE") or entry["value"] in ("true", "false"), entry["name"]


def enrolled(variant: str) -> set[str]:
    """The ServiceAccounts whose pods ask the issuer for a certificate."""
    return {
        pod.spec["serviceAccountName"]
        for pod in pods_of(variant).values()
        if any(one["name"] == "enroll" for one in pod.all_containers)
    }


@everywhere
def test_every_pod_but_the_issuer_enrols_for_a_certificate(variant: str) -> None:
    accounts = {pod.spec["serviceAccountName"] for pod in pods_of(variant).values()}
    assert accounts - enrolled(variant) == {"bigfleet-issuer"}


def test_the_issuer_knows_the_accounts_that_ask() -> None:
    assert enrolled("everything") - {"grafana"} <= KIND_OF_SERVICE_ACCOUNT.keys()


def test_the_issuer_knows_grafana() -> None:
    assert KIND_OF_SERVICE_ACCOUNT["grafana"] == "grafana"


def test_only_what_needs_the_hosts_api_has_rights_there() -> None:
    objects = objects_of("everything")
    rights = {
        (one["metadata"]["name"], tuple(rule["resources"]), tuple(rule["verbs"]))
        for one in objects
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
    }
    assert rights == {
        (f"bigfleet-issuer-{NAMESPACE}", ("tokenreviews",), ("create",)),
        ("bigfleet-issuer", ("pods",), ("get",)),
        ("scaletest-prometheus", ("pods",), ("get", "list", "watch")),
        ("scaletest-run-reader", ("configmaps",), ("get", "list", "watch")),
    }
    granted = {subject["name"] for one in objects if one["kind"].endswith("RoleBinding") for subject in one["subjects"]}
    with_token = {
        pod.spec["serviceAccountName"] for pod in pods_of("everything").values() if "host-api" in str(pod.spec)
    }
    assert granted == with_token == {"bigfleet-issuer", "bigfleet-provider", "kwok-cluster", "prometheus"}


def test_the_clusters_are_spread_over_the_hosts_but_never_held_back() -> None:
    pods = pods_of("everything")
    for name, pod in pods.items():
        constraints: list[dict[str, Any]] = pod.spec.get("topologySpreadConstraints", [])
        assert bool(constraints) == (pod.replicas > 1), name
        for constraint in constraints:
            assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
            assert constraint["labelSelector"]["matchLabels"].items() <= pod.labels.items()


def test_clusters_and_system_can_have_hosts_of_their_own() -> None:
    for name, pod in pods_of("everything").items():
        assert pod.spec["nodeSelector"] == {"role": "clusters" if name == "kwok-cluster" else "hub"}
        assert ("tolerations" in pod.spec) == (name == "kwok-cluster")


def test_persistence_replaces_the_volume_and_ends_with_the_release() -> None:
    objects = {one["metadata"]["name"]: one for one in objects_of("everything") if one["kind"] == "StatefulSet"}
    assert {name for name, one in objects.items() if "volumeClaimTemplates" in one["spec"]} == {
        "bigfleet-coordinator",
        "bigfleet-provider",
        "bigfleet-shard",
    }
    coordinator = objects["bigfleet-coordinator"]["spec"]
    assert coordinator["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
    (claim,) = coordinator["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"


def test_a_run_without_coordinator_prometheus_and_grafana_renders_the_rest() -> None:
    assert set(pods_of("as little as possible")) == {
        "bigfleet-issuer",
        "bigfleet-provider",
        "bigfleet-shard",
        "kwok-cluster",
    }


def test_both_containers_of_a_cluster_get_the_substrates_resources() -> None:
    resources = {"requests": {"cpu": "3", "memory": "5Gi"}, "limits": {"cpu": "7", "memory": "9Gi"}}
    pods = workloads(render(merged(plan_values("smoke"), {"kwok": {"resources": resources}})))
    assert [one["resources"] for one in pods["kwok-cluster"].containers] == [resources] * 2

"""What the chart tells its processes: flags that they know, files that they can read, settings that arrive."""

import dataclasses
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.cli import PROCESSES as BIGFLEET
from bigfleet.podcontroller.penalties import load_defaults
from bigfleet.process.dispatch import ProcessEntry
from bigfleet.process.flags import _field_help, _fields, parse_options
from scaletest.cluster.cli import PROCESSES as CLUSTER
from scaletest.cluster.control_plane.supervisor import ControlPlaneOptions
from scaletest.cluster.workload import operator_options, pod_controller_options
from scaletest.model.documents.loadprofile import LoadProfile, Seeding
from tests.golden.pods import environment, expanded
from tests.golden.rendering import NAMESPACE, Object, merged, plan_values, render
from tests.golden.variants import EVERYTHING, GOLDEN, VARIANTS, objects_of, pods_of
from tests.unit.plans import shipped_plan

PROGRAMS = {"bigfleet": BIGFLEET, "scaletest-cluster": CLUSTER}


def options_of(container: Object) -> Any:
    """The options that a process of ours would make of its arguments; exits if it does not know one."""
    program, name = container["command"]
    process: ProcessEntry = PROGRAMS[program][name]
    options = getattr(importlib.import_module(process.module), process.options)
    variables = environment(container)
    return parse_options(options, name, [expanded(argument, variables) for argument in container["args"]])


def config_map(objects: list[Object], name: str) -> dict[str, str]:
    (found,) = [one for one in objects if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name]
    return dict(found["data"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_process_understands_its_flags(variant: str) -> None:
    understood = {
        container["name"]: options_of(container)
        for pod in pods_of(variant).values()
        for container in pod.all_containers
        if container.get("command", [""])[0] in PROGRAMS
    }
    assert {"enroll", "issuer", "fleet", "provider", "shard", "apiserver", "workload"} <= understood.keys()


def test_settings_reach_their_process() -> None:
    pods = pods_of("everything")
    given = {
        one["name"]: options_of(one)
        for pod in pods.values()
        for one in pod.containers
        if one["name"] not in ("prometheus", "grafana")
    }
    assert given["provider"].seed == 20261116
    assert given["provider"].faults.refuse_configure is True
    assert given["provider"].repair_seconds == 600
    assert given["shard"].max_actions_per_cycle == 2_000_000
    assert given["shard"].reclaim_cap_fraction == 0.1
    assert given["shard"].coordinator_heartbeat_interval_seconds == 5
    assert given["shard"].coordinator_addr.count(",") == 2
    assert given["shard"].advertise_addr == f"bigfleet-shard-0.bigfleet-shard-headless.{NAMESPACE}.svc:7780"
    assert given["workload"].operator_qps == 2_000_000
    assert given["workload"].operator_burst == 4_000_000
    assert given["workload"].pod_controller_qps == 200
    assert given["workload"].boot_delay_median_seconds == 20
    assert given["workload"].boot_delay_p99_seconds == 90.5
    control_plane: ControlPlaneOptions = given["apiserver"]
    assert control_plane.node_lease_seconds == 40
    assert control_plane.apiserver_memory_mib == 2_000_000
    assert control_plane.apiserver_extra_flag == ("--max-requests-inflight=4000", "--goaway-chance=0.001")


def mounted(variant: str, pod: str, container: str, path: Path) -> str:
    """What a container reads under this path, from a ConfigMap of the chart."""
    spec = pods_of(variant)[pod].spec
    (holder,) = [one for one in spec["containers"] if one["name"] == container]
    (mount,) = [one for one in holder["volumeMounts"] if one["mountPath"] == str(path.parent)]
    (volume,) = [one for one in spec["volumes"] if one["name"] == mount["name"]]
    return config_map(objects_of(variant), volume["configMap"]["name"])[path.name]


def test_a_bootstrap_template_reaches_the_operator() -> None:
    (_, workload) = pods_of("everything")["kwok-cluster"].containers
    file = operator_options(options_of(workload)).bootstrap_template_file
    assert file is not None
    text = mounted("everything", "kwok-cluster", "workload", file)
    assert text == EVERYTHING["operator"]["bootstrapTemplate"]


def test_the_provider_looks_for_names_in_blobs_unless_their_template_is_somebodys_own() -> None:
    for variant, looks in (("dev-50", True), ("everything", False)):
        (provider,) = pods_of(variant)["bigfleet-provider"].containers
        assert options_of(provider).check_blobs is looks


def test_the_defaults_of_priority_classes_reach_the_pod_controller(tmp_path: Path) -> None:
    (_, workload) = pods_of("everything")["kwok-cluster"].containers
    file = pod_controller_options(options_of(workload)).priority_class_defaults
    assert file is not None
    arrived = tmp_path / file.name
    arrived.write_text(mounted("everything", "kwok-cluster", "workload", file))
    assert load_defaults(arrived) == EVERYTHING["podController"]["priorityClassDefaults"]


def test_who_gives_neither_has_no_file_for_them() -> None:
    (_, workload) = pods_of("dev-50")["kwok-cluster"].containers
    options = options_of(workload)
    assert operator_options(options).bootstrap_template_file is None
    assert pod_controller_options(options).priority_class_defaults is None


def test_three_coordinators_know_each_other_and_one_knows_nobody() -> None:
    (three,) = pods_of("everything")["bigfleet-coordinator"].containers
    assert options_of(three).initial_cluster == ",".join(
        f"bigfleet-coordinator-{n}=bigfleet-coordinator-{n}.bigfleet-coordinator.{NAMESPACE}.svc:7791" for n in range(3)
    )
    (shard,) = pods_of("everything")["bigfleet-shard"].containers
    assert options_of(three).join_addr == options_of(shard).coordinator_addr
    # What a follower tells of the leader is an address that the shards have in their list.
    assert options_of(three).advertise_addr == f"bigfleet-coordinator-0.bigfleet-coordinator.{NAMESPACE}.svc:7790"
    (one,) = pods_of("dev-50")["bigfleet-coordinator"].containers
    assert options_of(one).initial_cluster is None
    assert options_of(one).join_addr is None


def test_a_shard_without_a_coordinator_is_told_of_none() -> None:
    (shard,) = pods_of("as little as possible")["bigfleet-shard"].containers
    assert options_of(shard).coordinator_addr is None


@pytest.mark.parametrize("name", GOLDEN)
def test_the_demand_arrives_as_it_was_planned(name: str) -> None:
    plan = shipped_plan(*GOLDEN[name])
    files = config_map(objects_of(name), "kwok-load-profile")
    assert LoadProfile.model_validate(yaml.safe_load(files["profile.yaml"])) == plan.load_profile
    assert Seeding.model_validate(yaml.safe_load(files["seeding.yaml"])) == plan.seeding


def test_numbers_that_yaml_would_read_as_text_arrive_too() -> None:
    values = merged(
        plan_values("smoke"), {"loadProfile": {"churnPerMinute": 1e-7, "target": 3_000_000, "seed": 20261116}}
    )
    arrived = LoadProfile.model_validate(
        yaml.safe_load(config_map(render(values), "kwok-load-profile")["profile.yaml"])
    )
    assert (arrived.churn_per_minute, arrived.target, arrived.seed) == (1e-7, 3_000_000, 20261116)


def scrape_jobs(variant: str) -> dict[str, Object]:
    config = yaml.safe_load(config_map(objects_of(variant), "prometheus-config")["prometheus.yml"])
    return {job["job_name"]: job for job in config["scrape_configs"]}


def test_bigfleet_is_scraped_every_5_s_and_control_planes_every_30() -> None:
    jobs = scrape_jobs("dev-50")
    assert {name: job["scrape_interval"] for name, job in jobs.items()} == {"bigfleet": "5s", "control-plane": "30s"}
    actions = {
        name: [rule["action"] for rule in job["relabel_configs"] if rule.get("regex") == "control-plane"]
        for name, job in jobs.items()
    }
    assert actions == {"bigfleet": ["drop"], "control-plane": ["keep"]}


def test_every_metrics_port_is_scraped_and_labelled() -> None:
    serving = {
        name for pod in pods_of("everything").values() for port, name in pod.ports.items() if 8770 <= port <= 8810
    } - {"health"}  # which answers the kubelet only
    for job in scrape_jobs("everything").values():
        (kept,) = [
            rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep" and "|" in rule["regex"]
        ]
        assert set(kept.split("|")) == serving
        labels = {rule["target_label"] for rule in job["relabel_configs"] if "target_label" in rule}
        assert labels == {"component", "pod", "metrics_port"}
        (discovery,) = job["kubernetes_sd_configs"]
        assert (discovery["role"], discovery["namespaces"]) == ("pod", {"names": [NAMESPACE]})


def test_prometheus_answers_the_runner_people_and_grafana_only() -> None:
    web = yaml.safe_load(config_map(objects_of("dev-50"), "prometheus-config")["web.yml"])["tls_server_config"]
    assert web["client_auth_type"] == "RequireAndVerifyClientCert"
    assert web["client_allowed_sans"] == ["bigfleet://admin", "bigfleet://readonly", "bigfleet://grafana/grafana-0"]


def test_prometheus_keeps_its_admin_api_for_snapshots() -> None:
    arguments = pods_of("dev-50")["prometheus"].containers[0]["args"]
    assert "--web.enable-admin-api" in arguments


def test_grafana_finds_prometheus_by_its_uid_over_mutual_tls() -> None:
    files = config_map(objects_of("everything"), "grafana-provisioning")
    (source,) = yaml.safe_load(files["datasources.yaml"])["datasources"]
    assert (source["uid"], source["type"], source["url"]) == ("prometheus", "prometheus", "https://$PROMETHEUS_ADDR")
    (container,) = pods_of("everything")["grafana"].containers
    assert environment(container)["PROMETHEUS_ADDR"] == f"prometheus-0.prometheus.{NAMESPACE}.svc:9090"
    # The issuer puts `<kind>.bigfleet` into every server's certificate.
    assert source["jsonData"]["serverName"] == "prometheus.bigfleet"
    assert {
        key: value.removeprefix("$__file{/var/run/bigfleet/tls/") for key, value in source["secureJsonData"].items()
    } == {
        "tlsCACert": "ca.crt}",
        "tlsClientCert": "tls.crt}",
        "tlsClientKey": "tls.key}",
    }


def test_grafana_has_viewers_and_no_administrator() -> None:
    (container,) = pods_of("everything")["grafana"].containers
    settings = environment(container)
    assert settings["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert settings["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert settings["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert settings["GF_AUTH_BASIC_ENABLED"] == "false"
    assert not [name for name in settings if "ADMIN_USER" in name or "ADMIN_PASSWORD" in name]


def test_dashboards_are_provisioned_as_they_were_given() -> None:
    dashboards = config_map(objects_of("everything"), "grafana-dashboards")
    assert json.loads(dashboards["bigfleet-scaletest.json"]) == {"uid": "bigfleet-scaletest", "title": 'A "b"'}
    assert config_map(render(merged(plan_values("smoke"), {"grafana": {"enabled": True}})), "grafana-dashboards") == {}


def test_grafana_answers_where_the_runbook_forwards_a_port() -> None:
    (service,) = [
        one for one in objects_of("everything") if one["kind"] == "Service" and one["metadata"]["name"] == "grafana"
    ]
    (port,) = service["spec"]["ports"]
    assert port["port"] == 3000
    assert pods_of("everything")["grafana"].ports == {3000: "http"}


def flags_of(options: type[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(flag, help) of everything that can be set."""
    helps = _field_help(options)
    for field, kind, _ in _fields(options, None):
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield from flags_of(kind, f"{prefix}{field}_")
        else:
            yield f"--{prefix}{field}".replace("_", "-"), helps.get(field, "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_flag_has_its_help(program: str) -> None:
    for name, process in PROGRAMS[program].items():
        options = getattr(importlib.import_module(process.module), process.options)
        assert [flag for flag, help_text in flags_of(options) if not help_text] == [], name
